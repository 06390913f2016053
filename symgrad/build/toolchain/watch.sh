# sh watch.sh FOLDER PROGRAM ARGUMENTS...: run a program. If whoever holds the other end of the input is gone, however it
# ended, kill the program with all that it started in this group, and delete the folder. First this shell, which would end
# the watch, and what starts others, or a file might be made in the folder while it is deleted.
folder=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- &
program=$!
home=${folder%/*}
{
    read -r _ <&3
    kill -9 $$ $program
    rm -rf -- "$folder"
    [ "$(ls -A -- "$home")" = .symgrad-compiles-here ] && rm -rf -- "$home" # the process's, and nothing else is in it
    kill -9 0
} >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait $program
status=$?
kill -9 $watch
exit $status
