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
// Everything is stopped first, with nothing but the shell's own commands, which is
// quicker than a process can hop away; what is spared goes on in the end.
//
// A process belongs to a command when its marker says so, when it is in its session,
// when its parent does, or when it has no marker and began later. One that the engine
// is just starting is left alone.
//
// $1 marker ("" is all), $2 file with the command's process id, $3 the container's first
// shell, $4 prefix of every marker.
const killScript = `me=$$; start=0; leader=
stat_of() { IFS= read -r st <"/proc/$1/stat" || return 1; set -- ${st##*) }; state=$1 parent=$2 session=$4; shift 19; began=$1; }
if [ -n "$1" ]; then
  leader=$(cat "$2") || leader=
  if [ -n "$leader" ] && stat_of $leader; then start=$began; fi
fi
stopped=' '; before=' '; fresh=1; n=0
while [ $fresh = 1 ] && [ $n -lt 5000 ]; do
  n=$((n+1)); fresh=0
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    [ $p = 1 ] || [ $p = $me ] || [ $p = $3 ] && continue
    case $stopped$before in *" $p:"*) continue ;; esac
    stat_of $p 2>/dev/null || { fresh=1; continue; }
    [ $parent = $me ] && continue
    case $st in *'(runc:['*) continue ;; esac
    case $state in
    Z*|X*) continue ;;
    T*|t*) before="$before$p:$began "; continue ;;
    esac
    kill -STOP $p 2>/dev/null
    stopped="$stopped$p:$began "; fresh=1
  done
done
# Whoever was between two programs gets there, and shows its environment.
n=0; moving=1
while [ $moving = 1 ] && [ $n -lt 200 ]; do
  n=$((n+1)); moving=0
  for e in $stopped; do
    stat_of ${e%:*} 2>/dev/null || continue
    case $state in Z*|X*|T*|t*) ;; *) moving=1 ;; esac
  done
done
mine=; all=
if [ -n "$1" ]; then
  mine=" $(grep -lF "$1" /proc/[0-9]*/environ 2>/dev/null | tr '\n' ' ')"
  all=" $(grep -lF "$4" /proc/[0-9]*/environ 2>/dev/null | tr '\n' ' ')"
fi
victims=' '
for e in $stopped $before; do
  p=${e%:*}
  stat_of $p 2>/dev/null && [ $began = ${e#*:} ] || continue
  if [ -n "$1" ]; then
    hit=
    case $mine in *" /proc/$p/environ "*) hit=1 ;; esac
    [ "$session" = "$leader" ] && hit=1
    case $victims in *" $parent:"*) hit=1 ;; esac
    case $all in
    *" /proc/$p/environ "*) ;;
    *) [ $start -gt 0 ] && [ $began -ge $start ] && hit=1 ;;
    esac
    [ -n "$hit" ] || continue
  fi
  kill -KILL $p 2>/dev/null
  victims="$victims$e "
done
n=0; live=1
while [ $live = 1 ] && [ $n -lt 3000 ]; do
  n=$((n+1)); live=0
  for e in $victims; do
    stat_of ${e%:*} 2>/dev/null && [ $began = ${e#*:} ] || continue
    case $state in Z*|X*) ;; *) live=1 ;; esac
  done
  [ $live = 1 ] && [ $n -gt 2990 ] && sleep 1
done
for e in $stopped; do
  case $victims in *" $e "*) ;; *) kill -CONT ${e%:*} 2>/dev/null ;; esac
done
[ $live = 0 ]`
