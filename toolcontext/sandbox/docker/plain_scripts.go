package docker

// mainScript is the first program of a container without the server: it says who
// it is, and waits until the harness lets go of its input.
const mainScript = `d=/.hermes-env; [ -d $d ] || mkdir -p $d 2>/dev/null; chmod 1777 $d 2>/dev/null
sh=$(command -v bash) || sh=/bin/sh
printf '%s\n' "$$" "$(id -u 2>/dev/null || echo 0)" "$(id -g 2>/dev/null || echo 0)" "$HOME" "$sh"
while read -r _; do :; done`

// jobScript runs one command. What is to be run comes first on its input, in two
// parts that each end with a line of their own: an argument or a file would be seen by
// whoever looks for words of the script. The rest is the command's input.
//
// When the command has ended, a line that only the harness can know says so at the
// end of both outputs. While processes that the command left behind hold the outputs,
// the script stays, so that the engine leaves the outputs open.
//
// $1 end of a part, $2 number, $3 last words, $4 where errors go (1 merges), $5 input (9: the
// rest), $6 shell.
const jobScript = `exec 9<&0 8>&2 </dev/null 2>/dev/null
j=/.hermes-env/j$2
[ -d /.hermes-env ] || { mkdir -p /.hermes-env && chmod 1777 /.hermes-env; }
umask 077
echo $$ >$j.pid
for f in $j $j.script; do
  while IFS= read -r l <&9; do [ "$l" = "$1" ] && break; printf '%s\n' "$l"; done >$f
done
umask 022
if [ $4 = 1 ]; then
  if [ $5 = 9 ]; then BASH_ENV= ENV= "$6" $j <&9 2>&1 9<&- 8>&-; else BASH_ENV= ENV= "$6" $j 2>&1 9<&- 8>&-; fi
else
  if [ $5 = 9 ]; then BASH_ENV= ENV= "$6" $j <&9 2>&8 9<&- 8>&-; else BASH_ENV= ENV= "$6" $j 2>&8 9<&- 8>&-; fi
fi
c=$?
if [ -f $j.done ]; then mv -f $j.state /.hermes-env/state; fi
rm -f $j $j.*
printf '%s%s\n' "$3" $c
printf '%s%s\n' "$3" $c >&8
exec 9<&-
a=$(readlink /proc/$$/fd/1); b=$(readlink /proc/$$/fd/8)
while [ "$(exec 8>&-; ls -l /proc/[0-9]*/fd | grep -cF -e "$a" -e "$b")" -gt 2 ]; do sleep 1; done`

// killScript ends processes: those of one command, or all but the container's own.
// A process belongs to a command when its marker says so, when it is in its session,
// when its parent does, or when it has no marker and began later. Found ones are
// stopped first, so that none forks while the others are looked for.
//
// $1 marker ("" is all), $2 file with the command's process id, $3 the container's first
// shell, $4 prefix of every marker.
const killScript = `me=$$; start=0; leader=
stat_of() { IFS= read -r st <"/proc/$1/stat" || return 1; set -- ${st##*) }; state=$1 parent=$2 session=$4; shift 19; began=$1; }
if [ -n "$1" ]; then
  leader=$(cat "$2") || leader=
  if [ -n "$leader" ] && stat_of $leader; then start=$began; fi
fi
victims=' '; bare=' '; calm=0; n=0
while [ $calm -lt 2 ] && [ $n -lt 400 ]; do
  n=$((n+1)); fresh=0; live=0; gone=0
  mine=; all=
  if [ -n "$1" ]; then
    mine=" $(grep -lF "$1" /proc/[0-9]*/environ 2>/dev/null | tr '\n' ' ')"
    all=" $(grep -lF "$4" /proc/[0-9]*/environ 2>/dev/null | tr '\n' ' ')"
  fi
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    [ $p = 1 ] || [ $p = $me ] || [ $p = $3 ] && continue
    stat_of $p 2>/dev/null || { gone=1; continue; }
    [ $parent = $me ] && continue
    case $state in Z*|X*) continue ;; esac
    hit=
    case $victims in *" $p:$began "*) live=$((live+1)); kill -KILL $p 2>/dev/null; continue ;; esac
    if [ -z "$1" ]; then hit=1
    else
      case $mine in *" /proc/$p/environ "*) hit=1 ;; esac
      [ "$session" = "$leader" ] && hit=1
      case $victims in *" $parent:"*) hit=1 ;; esac
      case $all in
      *" /proc/$p/environ "*) ;;
      *)
        # Born after the lists, or without a marker. Between two programs a process
        # shows no environment: it has to lack the marker twice.
        if [ -n "$hit" ]; then :
        elif grep -qF "$1" /proc/$p/environ 2>/dev/null; then hit=1
        elif grep -qF "$4" /proc/$p/environ 2>/dev/null; then continue
        elif ! stat_of $p 2>/dev/null; then gone=1; continue
        else
          case $state in Z*|X*) gone=1; continue ;; esac
          if [ $start -gt 0 ] && [ $began -ge $start ]; then
            case $bare in *" $p:$began "*) hit=1 ;; *) bare="$bare$p:$began "; fresh=1 ;; esac
          fi
        fi ;;
      esac
    fi
    if [ -n "$hit" ]; then
      kill -STOP $p 2>/dev/null; victims="$victims$p:$began "; fresh=1; live=$((live+1))
    fi
  done
  # One that is gone when it is looked at may have left a child behind. Commands
  # beside this one come and go all the time, so there is an end to that doubt.
  if [ $fresh = 0 ] && [ $live = 0 ] && { [ $gone = 0 ] || [ $n -gt 80 ]; }; then calm=$((calm+1)); else calm=0; fi
done
[ $calm -ge 2 ]`
