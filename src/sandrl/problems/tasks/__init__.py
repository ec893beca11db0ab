"""Tasks: problems that are a machine, with an instruction and a verifier, in the formats of the field."""
