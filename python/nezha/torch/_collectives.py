"""The collectives of c10d over one Communicator.

A mixin: the two base classes that torch offers (a Backend, a ProcessGroup) add only what differs between
them. Each method takes what torch's trampolines pass, starts the operation and returns a Work. Where
the caller said that it waits at once (`opts.asyncOp` is False) the calling thread drives the operation,
which is over on return, and there is no Work: None.

Tensors may be non-contiguous: they are packed before and unpacked after. Methods with an older name
in torch before 2.14 have both.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch
from torch._C import _distributed_c10d as c10d

from .. import errors
from . import _tensors
from ._calls import Call, Calls, collective
from ._dtypes import movable, operator, reducible
from ._work import Work

Tensors = List[torch.Tensor]
_ALLREDUCE = c10d.AllreduceOptions()
_COALESCED = c10d.AllreduceCoalescedOptions()
_ALLGATHER = c10d.AllgatherOptions()
_REDUCE_SCATTER = c10d.ReduceScatterOptions()
_ALLTOALL = c10d.AllToAllOptions()
_BARRIER = c10d.BarrierOptions()


class Collectives(Calls):
    """broadcast ... barrier, for a class that torch calls."""

    @collective("broadcast", device=lambda tensors, opts=None: tensors[0])
    def broadcast(self, tensors: Tensors, opts: Any) -> Optional[Work]:
        """The tensor of group rank opts.rootRank -> everybody."""
        (tensor,) = _tensors.single(tensors)
        if opts.rootRank == self._comm.rank:  # which only reads
            return self._start(opts, tensors, None, self._comm.broadcast,
                               movable(_tensors.dense(tensor)), opts.rootRank)
        packed, finish = _tensors.packed(tensor, load=False)
        return self._start(opts, tensors, finish, self._comm.broadcast, movable(packed),
                           opts.rootRank)

    @collective("all_reduce", device=lambda tensors, opts=None: tensors[0])
    def allreduce(self, tensors: Tensors, opts: Any = _ALLREDUCE) -> Optional[Work]:
        """The tensor = opts.reduceOp over the ranks."""
        (tensor,) = _tensors.single(tensors)
        op, factor = operator(opts.reduceOp)
        packed, finish = _tensors.packed(tensor)
        return self._start(opts, tensors, finish, self._comm.all_reduce,
                           reducible(packed), op, factor=factor)

    def allreduce_sparse(self, tensors: Tensors, opts: Any = _ALLREDUCE) -> Optional[Work]:
        """Raises Unsupported."""
        raise errors.Unsupported("all_reduce of sparse tensors: use to_dense(), or a dense gradient "
                                 "(torch.nn.Embedding(sparse=False))")

    @collective("all_reduce", device=lambda tensors, opts=None: tensors[0])
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = _COALESCED) -> Optional[Work]:
        """allreduce of each tensor, all started together."""
        calls: List[Call] = []
        finishes = []
        for tensor in tensors:
            op, factor = operator(opts.reduceOp)
            packed, finish = _tensors.packed(tensor)
            finishes.append(finish)
            calls.append((self._comm.all_reduce, (reducible(packed), op), {"factor": factor}))
        return self._start_all(opts, tensors, _tensors.both(finishes), calls)

    @collective("reduce", device=lambda tensors, opts=None: tensors[0])
    def reduce(self, tensors: Tensors, opts: Any) -> Optional[Work]:
        """As allreduce; only group rank opts.rootRank gets the result."""
        (tensor,) = _tensors.single(tensors)
        op, factor = operator(opts.reduceOp)
        packed, finish = _tensors.packed(tensor)
        if opts.rootRank != self._comm.rank:  # which only reads
            finish = None
        return self._start(opts, tensors, finish, self._comm.reduce, reducible(packed),
                           opts.rootRank, op, factor=factor)

    @collective("all_gather", device=lambda outputs, inputs, opts=None: inputs[0])
    def allgather(self, outputs: List[Tensors], inputs: Tensors,
                  opts: Any = _ALLGATHER) -> Optional[Work]:
        """outputs[0][r] = the input of rank r; sizes may differ between ranks."""
        (tensor,) = _tensors.single(inputs)
        (targets,) = _tensors.lists(outputs, self._comm.world_size)
        call, finish = self._gather_list(targets, tensor)
        return self._start(opts, targets, finish, call[0], *call[1], **call[2])

    @collective("all_gather", device=lambda outputs, inputs, opts=None: inputs[0])
    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors,
                            opts: Any = _ALLGATHER) -> Optional[Work]:
        """outputs[r][i] = inputs[i] of rank r."""
        world = self._comm.world_size
        if len(outputs) != world or any(len(row) != len(inputs) for row in outputs):
            raise errors.InvalidArgument(f"all_gather_coalesced needs {world} lists of "
                                         f"{len(inputs)} outputs")
        calls, finishes = [], []
        for index, tensor in enumerate(inputs):
            call, finish = self._gather_list([row[index] for row in outputs], tensor)
            calls.append(call)
            finishes.append(finish)
        written = [tensor for row in outputs for tensor in row]
        return self._start_all(opts, written, _tensors.both(finishes), calls)

    @collective("all_gather_single", device=lambda output, *rest: output)
    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor,
                          opts: Any = _ALLGATHER) -> Optional[Work]:
        """output = the inputs of all ranks, one after another."""
        packed, finish = self._gather_single(output, tensor)
        return self._start(opts, [output], finish, self._comm.all_gather,
                           movable(_tensors.dense(tensor)), out=movable(packed))

    @collective("all_gather_single", device=lambda outputs, *rest: outputs[0])
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors,
                                    opts: Any = _ALLGATHER) -> Optional[Work]:
        """all_gather_single of each pair, all started together."""
        _tensors.same_length(outputs, inputs)
        calls: List[Call] = []
        finishes = []
        for output, tensor in zip(outputs, inputs):
            packed, finish = self._gather_single(output, tensor)
            calls.append((self._comm.all_gather, (movable(_tensors.dense(tensor)),),
                          {"out": movable(packed)}))
            finishes.append(finish)
        return self._start_all(opts, outputs, _tensors.both(finishes), calls)

    @collective("gather", device=lambda outputs, inputs, opts=None: inputs[0])
    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any) -> Optional[Work]:
        """At group rank opts.rootRank outputs[0][r] = the input of rank r."""
        (tensor,) = _tensors.single(inputs)
        source = _tensors.dense(tensor)
        if opts.rootRank != self._comm.rank:
            return self._start(opts, [], None, self._comm.gather, movable(source),
                               root=opts.rootRank)
        (targets,) = _tensors.lists(outputs, self._comm.world_size, tensor)
        flat, finish = _tensors.scratch_for(targets)
        return self._start(opts, targets, finish, self._comm.gather, movable(source),
                           out=movable(flat), root=opts.rootRank)

    @collective("gather", device=lambda output, tensor, opts=None: tensor)
    def gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Optional[Work]:
        """gather into one tensor."""
        source = _tensors.dense(tensor)
        if opts.rootRank != self._comm.rank:
            return self._start(opts, [], None, self._comm.gather, movable(source),
                               root=opts.rootRank)
        packed, finish = self._gather_single(output, tensor)
        return self._start(opts, [output], finish, self._comm.gather, movable(source),
                           out=movable(packed), root=opts.rootRank)

    @collective("scatter", device=lambda outputs, inputs, opts=None: outputs[0])
    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any) -> Optional[Work]:
        """The output of rank r = inputs[0][r] of group rank opts.rootRank."""
        (tensor,) = _tensors.single(outputs)
        packed, finish = _tensors.packed(tensor, load=False)
        flat: Optional[torch.Tensor] = None
        if opts.rootRank == self._comm.rank:
            (sources,) = _tensors.lists(inputs, self._comm.world_size, tensor)
            flat = _tensors.flattened(sources)
        return self._start(opts, outputs, finish, self._comm.scatter,
                           None if flat is None else movable(flat), out=movable(packed),
                           root=opts.rootRank)

    @collective("reduce_scatter", device=lambda outputs, inputs, opts=None: outputs[0])
    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors],
                       opts: Any = _REDUCE_SCATTER) -> Optional[Work]:
        """The output = opts.reduceOp over the ranks of inputs[0][this rank]."""
        (tensor,) = _tensors.single(outputs)
        (sources,) = _tensors.lists(inputs, self._comm.world_size)
        call, finish = self._scatter_sum(tensor, _tensors.flattened(sources), opts,
                                         [source.numel() for source in sources])
        return self._start(opts, outputs, finish, call[0], *call[1], **call[2])

    @collective("reduce_scatter_single", device=lambda output, *rest: output)
    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor,
                              opts: Any = _REDUCE_SCATTER) -> Optional[Work]:
        """The output = opts.reduceOp over the ranks of this rank's part of the input."""
        call, finish = self._scatter_sum(output, tensor, opts, None)
        return self._start(opts, [output], finish, call[0], *call[1], **call[2])

    @collective("reduce_scatter_single", device=lambda outputs, *rest: outputs[0])
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Any = _REDUCE_SCATTER) -> Optional[Work]:
        """reduce_scatter_single of each pair, all started together."""
        _tensors.same_length(outputs, inputs)
        parts = [self._scatter_sum(output, tensor, opts, None)
                 for output, tensor in zip(outputs, inputs)]
        return self._start_all(opts, outputs, _tensors.both([finish for _, finish in parts]),
                               [call for call, _ in parts])

    @collective("all_to_all_single", device=lambda output, *rest: output)
    def all_to_all_single(self, output: torch.Tensor, tensor: torch.Tensor,
                          output_splits: Sequence[int], input_splits: Sequence[int],
                          opts: Any = _ALLTOALL) -> Optional[Work]:
        """Part r of the input -> rank r. Splits count rows of the first dimension; empty: equal."""
        _tensors.same_dtype(output, tensor)
        packed, finish = _tensors.packed(output, load=False)
        source = _tensors.dense(tensor)
        world = self._comm.world_size
        if not output_splits and not input_splits:
            _tensors.divisible(source, world)
            _tensors.divisible(packed, world)
            return self._start(opts, [output], finish, self._comm.all_to_all, movable(source),
                               out=movable(packed))
        return self._start(opts, [output], finish, self._comm.all_to_all_v, movable(source),
                           _tensors.split_counts(source, input_splits, world),
                           _tensors.split_counts(packed, output_splits, world), out=movable(packed))

    @collective("all_to_all", device=lambda outputs, inputs, opts=None: outputs[0])
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = _ALLTOALL) -> Optional[Work]:
        """inputs[r] -> rank r, outputs[r] <- rank r; sizes may differ."""
        (sources,) = _tensors.lists([inputs], self._comm.world_size)
        (targets,) = _tensors.lists([outputs], self._comm.world_size)
        _tensors.same_dtype(targets[0], sources[0])
        flat, finish = _tensors.scratch_for(targets)
        gathered = _tensors.flattened(sources)
        return self._start(opts, outputs, finish, self._comm.all_to_all_v, movable(gathered),
                           _tensors.byte_counts(gathered, sources),
                           _tensors.byte_counts(flat, targets), out=movable(flat))

    @collective("send", device=lambda tensors, *rest: tensors[0])
    def send(self, tensors: Tensors, destination: int, tag: int) -> Optional[Work]:
        """One tensor to one rank of the group."""
        (tensor,) = _tensors.single(tensors)
        return self._start(None, tensors, None, self._comm.send, movable(_tensors.dense(tensor)),
                           destination, tag)

    @collective("recv", device=lambda tensors, *rest: tensors[0])
    def recv(self, tensors: Tensors, source: int, tag: int) -> Optional[Work]:
        """One tensor from one rank of the group."""
        (tensor,) = _tensors.single(tensors)
        packed, finish = _tensors.packed(tensor, load=False)
        return self._start(None, tensors, finish, self._comm.recv, movable(packed), source, tag)

    @collective("recv", device=lambda tensors, *rest: tensors[0])
    def recv_anysource(self, tensors: Tensors, tag: int) -> Optional[Work]:
        """One tensor from whoever sends first; Work.source_rank() says who it was."""
        (tensor,) = _tensors.single(tensors)
        packed, finish = _tensors.packed(tensor, load=False)
        return self._start(None, tensors, finish, self._comm.recv, movable(packed), None, tag)

    @collective("barrier", device=None)
    def barrier(self, opts: Any = _BARRIER) -> Optional[Work]:
        """Over when every rank has entered."""
        return self._start(opts, [], None, self._comm.barrier)

    # The names of torch before 2.14.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    gather_into_tensor = gather_single
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _gather_list(self, targets: Sequence[torch.Tensor], tensor: torch.Tensor) -> Any:
        source = _tensors.dense(tensor)
        flat, finish = _tensors.scratch_for(targets)
        _tensors.same_dtype(flat, source)
        if targets[self._comm.rank].numel() != source.numel():
            raise errors.InvalidArgument(
                f"all_gather: output {self._comm.rank} has {targets[self._comm.rank].numel()} "
                f"elements and this rank's input has {source.numel()}")
        if all(target.numel() == source.numel() for target in targets):
            return (self._comm.all_gather, (movable(source),), {"out": movable(flat)}), finish
        arguments = (movable(source), _tensors.byte_counts(flat, targets))
        return (self._comm.all_gather_v, arguments, {"out": movable(flat)}), finish

    def _gather_single(self, output: torch.Tensor, tensor: torch.Tensor) -> Any:
        _tensors.same_dtype(output, tensor)
        if output.numel() != tensor.numel() * self._comm.world_size:
            raise errors.InvalidArgument(
                f"the output has {output.numel()} elements; {self._comm.world_size} ranks with "
                f"{tensor.numel()} each need {tensor.numel() * self._comm.world_size}")
        return _tensors.packed(output, load=False)

    def _scatter_sum(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any,
                     counts: Optional[List[int]]) -> Any:
        _tensors.same_dtype(output, tensor)
        source = _tensors.dense(tensor)
        op, factor = operator(opts.reduceOp)
        packed, finish = _tensors.packed(output, load=False)
        world = self._comm.world_size
        options = {"op": op, "factor": factor, "out": reducible(packed)}
        if counts is None or len(set(counts)) == 1:
            if source.numel() != packed.numel() * world:
                raise errors.InvalidArgument(
                    f"reduce_scatter: the input has {source.numel()} elements; {world} ranks with "
                    f"an output of {packed.numel()} each need {packed.numel() * world}")
            return (self._comm.reduce_scatter, (reducible(source),), options), finish
        return (self._comm.reduce_scatter_v, (reducible(source), counts), options), finish
