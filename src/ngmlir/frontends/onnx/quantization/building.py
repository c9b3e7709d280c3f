# SPDX-License-Identifier: Apache-2.0
"""Models made of nodes and arrays, and the files they are written to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    version_converter,
)

from ....support.diagnostics import UserError
from ....support.files import write_files
from ....support.version import version
from ..beside import beside
from ..contents import Contents
from ..model import Model
from ..order import outside
from ..survey import domain_of
from ..tensors import external_place
from ..tensors_beside import is_beside, tensors_in
from .graph import Graph

#: Versions of files that all readers of these operators know.
_FORMAT = 8
#: A file holds so many bytes at most; with more, the weights are in an external file.
_LARGEST = (1 << 31) - (1 << 24)
#: Smaller tensors stay in the model itself.
_SMALL = 1024


def needed_nodes(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that outputs depend on, in their order."""
    wanted, found = set(outputs), list[NodeProto]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            found.append(node)
            wanted |= outside(node)
    return found[::-1]


def model_of(
    graph: Graph,
    nodes: Sequence[NodeProto],
    domains: Iterable[str] = (),
    outputs: Sequence[str] | None = None,
) -> ModelProto:
    """The model with these nodes, as far as its outputs need them, and with the weights that they read. `outputs` replace those
    of the model."""
    old = graph.contents.proto
    shown = list(old.graph.output) if outputs is None else [ValueInfoProto(name=name) for name in outputs]
    kept = needed_nodes(nodes, (o.name for o in shown))
    read = {o.name for o in shown} | {name for node in kept for name in outside(node)}
    made_by = {name for node in kept for name in node.output}
    held = [_initializer(graph.contents, t) for t in old.graph.initializer if t.name in read]
    held += [numpy_helper.from_array(array, name) for name, array in graph.arrays.items() if name in read]
    inputs = {*graph.model.input_names}
    made = ModelProto(
        ir_version=max(old.ir_version, _FORMAT),
        producer_name="ngmlir",
        producer_version=version(),
        domain=old.domain,
        model_version=old.model_version,
        doc_string=old.doc_string,
        opset_import=old.opset_import,
        functions=old.functions,
        metadata_props=old.metadata_props,
        graph=GraphProto(
            name=old.graph.name,
            doc_string=old.graph.doc_string,
            node=kept,
            input=[i for i in old.graph.input if i.name in inputs],
            output=shown,
            initializer=held,
            sparse_initializer=[s for s in old.graph.sparse_initializer if s.values.name in read],
            value_info=[v for v in old.graph.value_info if v.name in made_by],
        ),
    )
    known = {domain_of(o.domain) for o in made.opset_import}
    made.opset_import.extend(helper.make_opsetid(d, 1) for d in sorted({*domains} - known))
    if graph.contents.folder is not None:
        _gather(made, graph.contents.folder)
    return made


def _initializer(contents: Contents, tensor: TensorProto) -> TensorProto:
    """An initializer that holds its elements itself."""
    data: Any = contents.weights.get(tensor.name)
    if is_beside(tensor):
        data = beside(contents.folder, *external_place(tensor), f"the tensor '{tensor.name}'")
    if data is None:
        return tensor
    return TensorProto(
        name=tensor.name,
        dims=tensor.dims,
        data_type=tensor.data_type,
        raw_data=bytes(data),
        doc_string=tensor.doc_string,
    )


def _gather(made: ModelProto, folder: Path) -> None:
    """Moves external tensors of attributes and inner graphs into the model."""
    nodes = [*made.graph.node, *(node for function in made.functions for node in function.node)]
    for tensor in tensors_in(nodes):
        if is_beside(tensor):
            data = bytes(beside(folder, *external_place(tensor), f"the tensor '{tensor.name}'"))
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.raw_data = data


def with_opset(model: Model, least: int) -> Model:
    """The model with a version of the standard's operators of at least `least`. UserError where it cannot be converted."""
    contents = model.contents
    if contents.opsets.get("", 1) >= least:
        return model
    graph = Graph(model)
    whole = model_of(graph, graph.nodes)
    old = contents.opsets.get("", 1)
    try:
        return Model(version_converter.convert_version(whole, least), model.threads, model.exact)
    except (RuntimeError, ValueError, UserError) as error:
        told = " ".join(str(error).split())[:300]
        raise UserError(
            f"the model has operators of version {old}, quantised ones need {least}; it cannot be converted: {told}",
            hint=f"export the model with opset_version={least} or later",
        ) from None


def written(proto: ModelProto, path: str | os.PathLike[str], external: bool = False) -> int:
    """Writes a model to a file, and its weights to an external file if they are too large for one, or if `external`; returns the
    number of bytes. Files keep their old content until all is written."""
    name = os.fspath(path)
    if not external and proto.ByteSize() < _LARGEST:
        data = proto.SerializeToString()
        write_files({name: [data]})
        return len(data)
    made, pieces, at = ModelProto(), list[bytes](), 0
    other = f"{Path(name).name}.data"
    made.CopyFrom(proto)
    for tensor in made.graph.initializer:
        if len(tensor.raw_data) < _SMALL:
            continue
        data, padding = tensor.raw_data, -at % 64
        pieces += [bytes(padding), data]
        at += padding
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        places: Mapping[str, Any] = {"location": other, "offset": at, "length": len(data)}
        for key, value in places.items():
            tensor.external_data.add(key=key, value=str(value))
        at += len(data)
    small = made.SerializeToString()
    write_files({str(Path(name).with_name(other)): pieces, name: [small]})
    return len(small) + at
