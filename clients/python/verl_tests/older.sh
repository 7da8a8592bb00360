#!/bin/bash
# Puts an older verl into DIR, to be laid over the environment of the newest by PYTHONPATH.
set -euo pipefail
python=$1 version=$2 dir=$3
rm -rf "$dir"
packages=("verl==$version")
if [ "$version" = 0.7.0 ]; then # it imports names that transformers 5 no longer has
	packages+=("transformers==4.57.1" "huggingface-hub<1" "tokenizers<0.23" "datasets==3.6.0" "dill<0.3.9" "multiprocess<0.70.17" "fsspec==2025.3.0")
fi
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$dir" "${packages[@]}"
