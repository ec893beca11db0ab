# Completion of sandrl's command line for bash. Generated: `make generate`.

_sandrl() {
    local -a answer
    mapfile -t answer < <(
        _SANDRL_COMPLETE=bash _SANDRL_COMPLETE_BREAKS=$COMP_WORDBREAKS \
            "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null
    )
    COMPREPLY=("${answer[@]:1}")
    # What is alive comes first.
    compopt -o nosort 2>/dev/null
    if ((${#COMPREPLY[@]} == 0)); then
        case ${answer[0]} in
            files) compopt -o default ;;
            directories) compopt -o dirnames ;;
        esac
    fi
}

complete -F _sandrl sandrl
