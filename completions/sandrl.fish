# Completion of sandrl's command line for fish. Generated: `make generate`.

function __sandrl_complete
    set -l words (commandline -opc)
    set -l command $words[1]
    set -e words[1]
    set -l current (commandline -ct)
    set -l answer (_SANDRL_COMPLETE=fish $command $words "$current" 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current"
    end
    set -e answer[1]
    printf '%s\n' $answer
end

complete -c sandrl -f -k -a '(__sandrl_complete)'
