#!/bin/sh
# Generates the Go and Python code of proto/ in place. Run it through `make proto`.
# protoc comes from grpcio-tools (proto/requirements.txt), the Go plugins from the tool lines of go.mod.
set -eu
cd "$(dirname "$0")/.."

venv=.venv/proto
stamp=$venv/requirements.txt
if ! cmp -s proto/requirements.txt "$stamp"; then
	rm -rf "$venv"
	"${PYTHON:-python3}" -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r proto/requirements.txt
	cp proto/requirements.txt "$stamp"
fi
go build -o "$venv/bin/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

python_out=clients/python/src
"$venv/bin/python" -m grpc_tools.protoc -I proto \
	--plugin="$venv/bin/protoc-gen-go" --plugin="$venv/bin/protoc-gen-go-grpc" \
	--go_out=proto --go_opt=paths=source_relative \
	--go-grpc_out=proto --go-grpc_opt=paths=source_relative \
	--python_out="$python_out" --pyi_out="$python_out" --grpc_python_out="$python_out" \
	$(cd proto && find verigraph -name '*.proto' | sort)
