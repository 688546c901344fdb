"""What bash, zsh and fish run to complete a command line of ours; `cli/completion.py` answers them.

The program is called as it stands in the line, so each one completes itself, and a function of that name will do.

click's own scripts join words with spaces and split them again, and do not know that bash splits at `:` and `=`, which
names of instances contain. These scripts pass the line unchanged.
"""

_BASH = r"""# Completion of mailbox-appliance for bash. With bash-completion it belongs into
# ~/.local/share/bash-completion/completions/mailbox-appliance, else into ~/.bashrc.
_mailbox_appliance() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done < <(
        _MAILBOX_APPLIANCE_COMPLETE=bash_complete _MAILBOX_APPLIANCE_LINE="${COMP_LINE:0:COMP_POINT}" \
            _MAILBOX_APPLIANCE_BREAKS="$COMP_WORDBREAKS" "${1/#\~/$HOME}" 2>/dev/null </dev/null
    )
}
complete -o nosort -F _mailbox_appliance mailbox-appliance
"""

_ZSH = r"""#compdef mailbox-appliance
# Completion of mailbox-appliance for zsh. It belongs into a directory of $fpath, as _mailbox-appliance.
_mailbox_appliance() {
    local kind value help program=${(Q)words[1]}
    local -a described
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) described+=("${value//:/\\:}${help:+:$help}") ;;
            file) compset -P '-*='; _files ;;
            dir) compset -P '-*='; _files -/ ;;
        esac
    done < <(
        _MAILBOX_APPLIANCE_COMPLETE=zsh_complete _MAILBOX_APPLIANCE_LINE="${words[1,CURRENT-1]} $PREFIX" \
            "${program/#\~/$HOME}" 2>/dev/null </dev/null
    )
    (( ! $#described )) || _describe -V 'mailbox-appliance' described
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _mailbox_appliance "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _mailbox_appliance mailbox-appliance
fi
"""

_FISH = r"""# Completion of mailbox-appliance for fish. It belongs into
# ~/.config/fish/completions/mailbox-appliance.fish.
function __mailbox_appliance_complete
    set -lx _MAILBOX_APPLIANCE_COMPLETE fish_complete
    set -lx _MAILBOX_APPLIANCE_LINE (commandline -cp | string collect)
    set -l program (string replace -r '^~' $HOME -- (commandline -cpo)[1])
    type -q $program; or return
    set -l begun (commandline -ct)
    set -l option (string match -r -- '^-[^=]*=' $begun)
    set -l value (string replace -r -- '^-[^=]*=' '' $begun)
    for reply in ($program 2>/dev/null </dev/null)
        set -l parts (string split \t -- $reply)
        switch $parts[1]
            case plain
                echo $parts[2]\t$parts[3]
            case file
                string replace -r '^' -- "$option" (__fish_complete_path $value)
            case dir
                string replace -r '^' -- "$option" (__fish_complete_directories $value)
        end
    end
end
complete --command mailbox-appliance --no-files --keep-order --arguments '(__mailbox_appliance_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
