#!/bin/bash
cat > /home/user/analysis.json <<'END'
{
  "limitation": "wait() and waitpid() work only for direct children of the calling process",
  "relationship": "parent-child",
  "alternative": "reading the state of a process from /proc"
}
END
