#!/bin/sh
# Keeps a control daemon of NVIDIA's Multi-Process Service for each GPU of this node (docs/sharing.md).
#
# It needs nvidia-cuda-mps-control and nvidia-smi, which come with the driver, and timeout. In $MPS_ROOT/<UUID> it keeps
#   pipe/, log/  of the control daemon
#   state        the compute mode of the GPU, written anew whenever the daemon has answered; an old one: it does not
# and the node agent puts
#   wanted       as long as pods share the GPU by MPS: then nobody uses it but through the daemon
# A daemon that does not answer is left alone, because processes may run that are its clients. One that has ended is started
# again: its clients have ended with it.
set -u
umask 022
root=$MPS_ROOT
ask_every=${MPS_ASK_EVERY:-5}
patience=${MPS_PATIENCE:-5}

# Gives a command to the control daemon of a folder; fails if it does not answer.
say() {
  echo "$2" | CUDA_MPS_PIPE_DIRECTORY=$1/pipe timeout "$patience" nvidia-cuda-mps-control >/dev/null 2>&1
}

start() {
  rm -f "$2/state"
  mkdir -p "$2/pipe" "$2/log"
  # The folder itself stays: containers have it.
  rm -rf "$2"/pipe/* "$2"/pipe/.[!.]*
  CUDA_VISIBLE_DEVICES=$1 CUDA_MPS_PIPE_DIRECTORY=$2/pipe CUDA_MPS_LOG_DIRECTORY=$2/log \
    nvidia-cuda-mps-control -f -multiuser-server &
  daemon=$!
}

# Sets the compute mode that is wanted now, and tells it.
tell() {
  mode=DEFAULT
  if [ -e "$2/wanted" ]; then mode=EXCLUSIVE_PROCESS; fi
  nvidia-smi -i "$1" -c "$mode" >/dev/null || return
  echo "$mode" >"$2/state.new" && mv "$2/state.new" "$2/state"
  told=$mode
}

leave() {
  say "$folder" "quit -t 1" || kill "$daemon" 2>/dev/null
  wait "$daemon" 2>/dev/null
  rm -f "$folder/state"
  nvidia-smi -i "$gpu" -c DEFAULT >/dev/null
  exit 0
}

keep() {
  gpu=$1
  folder=$root/$1
  daemon=
  told=
  trap leave TERM INT
  while :; do
    if [ -z "$daemon" ] || ! kill -0 "$daemon" 2>/dev/null; then start "$gpu" "$folder"; fi
    if say "$folder" get_server_list; then tell "$gpu" "$folder"; fi
    seconds=0
    while [ "$seconds" -lt "$ask_every" ]; do
      sleep 1
      seconds=$((seconds + 1))
      wanted=DEFAULT
      if [ -e "$folder/wanted" ]; then wanted=EXCLUSIVE_PROCESS; fi
      # At once: a container waits for it.
      if [ -n "$told" ] && [ "$told" != "$wanted" ]; then break; fi
    done
  done
}

trap 'exit 0' TERM INT
mkdir -p "$root"
echo "$MPS_POD" >"$root/pod"
gpus=
until [ -n "$gpus" ]; do
  # Not those in MIG mode: they are given in parts.
  gpus=$(nvidia-smi --query-gpu=uuid,mig.mode.current --format=csv,noheader | grep -v Enabled | cut -d, -f1)
  [ -n "$gpus" ] || sleep 30
done
keepers=
for gpu in $gpus; do
  keep "$gpu" &
  keepers="$keepers $!"
done
trap 'kill $keepers' TERM INT
wait
wait
rm -f "$root/pod"
