# SPDX-License-Identifier: Apache-2.0
"""Learning rates that follow from the number of the iteration, i: graphs of a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ...op_graph import functions as ng
from ...op_graph.calls import takes
from ...op_graph.errors import UserError, fail, limit
from ...op_graph.node import closure
from ...op_graph.tensor import Tensor
from ...support.spelling import counted, did_you_mean
from .given import is_named

__all__ = [
    "Policy",
    "get_learning_rate_policy_callback",
    "learning_rate_of",
    "lr_policies",
    "lr_policy_cosine",
    "lr_policy_exp",
    "lr_policy_fixed",
    "lr_policy_inv",
    "lr_policy_poly",
    "lr_policy_provided",
    "lr_policy_schedule",
    "lr_policy_sequence",
    "lr_policy_sigmoid",
    "lr_policy_step",
    "lr_policy_warmup",
]

#: From the number of the iteration to the rate.
Schedule = Callable[[Any], Tensor]


def lr_policy_fixed(params: Mapping[str, Any]) -> Schedule:
    """base_lr."""
    return lambda iteration: ng.constant(params["base_lr"])


def lr_policy_step(params: Mapping[str, Any]) -> Schedule:
    """base_lr * gamma ** (i // step)."""
    return lambda iteration: (
        params["base_lr"] * ng.power(params["gamma"], ng.floordivide(iteration, params["step"]))
    )


def lr_policy_schedule(params: Mapping[str, Any]) -> Schedule:
    """base_lr times the gammas of the points of `schedule` that i has reached; one gamma for all, or one for each."""
    points = [float(point) for point in params["schedule"]]
    gammas = np.ravel(params["gamma"]).astype(float)
    if len(gammas) == 1:
        gammas = gammas.repeat(len(points))
    if len(gammas) != len(points):
        fail(
            UserError,
            f"{counted(len(gammas), 'gamma')} for the {counted(len(points), 'point')} of a schedule",
            "one, or one each",
        )

    def rate(iteration: Any) -> Tensor:
        made = ng.constant(params["base_lr"])
        for point, gamma in zip(points, gammas, strict=True):
            made = made * ng.where(ng.greater_equal(iteration, point), float(gamma), 1.0)
        return made

    return rate


def lr_policy_exp(params: Mapping[str, Any]) -> Schedule:
    """base_lr * gamma ** i."""
    return lambda iteration: params["base_lr"] * ng.power(params["gamma"], iteration)


def lr_policy_inv(params: Mapping[str, Any]) -> Schedule:
    """base_lr * (1 + gamma * i) ** -power."""
    return lambda iteration: (
        params["base_lr"] * ng.power(1 + params["gamma"] * ng.as_op(iteration), -params["power"])
    )


def lr_policy_poly(params: Mapping[str, Any]) -> Schedule:
    """base_lr * (1 - i / max_iter) ** power."""
    return lambda iteration: (
        params["base_lr"] * ng.power(1 - ng.as_op(iteration) / params["max_iter"], params["power"])
    )


def lr_policy_sigmoid(params: Mapping[str, Any]) -> Schedule:
    """base_lr / (1 + exp(-gamma * (i - step_size)))."""
    return lambda iteration: (
        params["base_lr"] * ng.sigmoid(params["gamma"] * (ng.as_op(iteration) - params["step_size"]))
    )


def lr_policy_provided(params: Mapping[str, Any]) -> Schedule:
    """What is fed to `lr_placeholder`."""
    return lambda iteration: ng.as_op(params["lr_placeholder"])


def lr_policy_cosine(params: Mapping[str, Any]) -> Schedule:
    """From base_lr to min_lr (0 without it) along half a cosine, and min_lr from max_iter on."""
    base, least = params["base_lr"], params.get("min_lr", 0.0)
    last = _positive("cosine", "max_iter", params["max_iter"])

    def rate(iteration: Any) -> Tensor:
        part = ng.minimum(ng.as_op(iteration) / last, 1.0)
        return least + (base - least) * 0.5 * (1 + ng.cos(np.pi * part))

    return rate


def lr_policy_warmup(params: Mapping[str, Any]) -> Schedule:
    """`then`, another policy, for iterations counted from `steps` on; before, a growing share of its first rate: from `start` (0
    without it) at iteration 0 in a line to 1."""
    steps, start = _positive("warmup", "steps", params["steps"]), params.get("start", 0.0)
    then = get_learning_rate_policy_callback(params["then"])

    def rate(iteration: Any) -> Tensor:
        i = ng.as_op(iteration)
        return then(_since(i, steps)) * ng.minimum(start + (1 - start) * i / steps, 1.0)

    return rate


def lr_policy_sequence(params: Mapping[str, Any]) -> Schedule:
    """One of `policies` after the other: the next one from each of `boundaries` on, for iterations counted from there."""
    policies = [get_learning_rate_policy_callback(each) for each in params["policies"]]
    boundaries = [_positive("sequence", "boundaries", each) for each in params["boundaries"]]
    if len(boundaries) != len(policies) - 1 or boundaries != sorted(boundaries):
        fail(
            UserError,
            f"{len(policies)} policies follow each other at {boundaries}",
            "boundaries ascend, and there is one less than policies",
        )

    def rate(iteration: Any) -> Tensor:
        made = policies[0](iteration)
        for first, policy in zip(boundaries, policies[1:], strict=True):
            made = ng.where(ng.less(iteration, first), made, policy(_since(ng.as_op(iteration), first)))
        return made

    return rate


def _positive(policy: str, name: str, value: Any) -> float:
    """A number of iterations."""
    if not isinstance(value, Real) or not float(value) > 0:
        fail(
            UserError,
            f"{name} of the learning-rate policy {policy!r} is a number of iterations, not {value!r}",
        )
    return float(value)


def _since(iteration: Tensor, first: float) -> Tensor:
    """How many iterations ago `first` was; 0 before."""
    return ng.maximum(iteration - first, 0)


@dataclass(frozen=True)
class Policy:
    """A kind of schedule: what makes one, the parameters that it needs, and those that it may have."""

    make: Callable[[Mapping[str, Any]], Schedule]
    parameters: tuple[str, ...]
    optional: tuple[str, ...] = ()


#: Name -> kind.
lr_policies = {
    "provided": Policy(lr_policy_provided, ("lr_placeholder",)),
    "fixed": Policy(lr_policy_fixed, ("base_lr",)),
    "step": Policy(lr_policy_step, ("base_lr", "gamma", "step")),
    "schedule": Policy(lr_policy_schedule, ("base_lr", "gamma", "schedule")),
    "exp": Policy(lr_policy_exp, ("base_lr", "gamma")),
    "inv": Policy(lr_policy_inv, ("base_lr", "gamma", "power")),
    "poly": Policy(lr_policy_poly, ("base_lr", "max_iter", "power")),
    "sigmoid": Policy(lr_policy_sigmoid, ("base_lr", "gamma", "step_size")),
    "cosine": Policy(lr_policy_cosine, ("base_lr", "max_iter"), ("min_lr",)),
    "warmup": Policy(lr_policy_warmup, ("steps", "then"), ("start",)),
    "sequence": Policy(lr_policy_sequence, ("policies", "boundaries")),
}


def get_learning_rate_policy_callback(lr_params: Any) -> Schedule:
    """A function from the number of the iteration to the learning rate.

    `lr_params` is a number, a tensor, a policy (`{"name": "step", "base_lr": 0.1, "gamma": 0.5, "step": 100}`), or such a
    function itself. So are the policies that `warmup` and `sequence` are made of. Raises Limit (a NotImplementedError) for a policy of another name, UserError (a ValueError) where it
    lacks parameters.
    """
    if isinstance(lr_params, (Real, np.ndarray)):
        return lr_policy_fixed({"base_lr": lr_params})
    if isinstance(lr_params, Tensor):
        return lr_policy_provided({"lr_placeholder": lr_params})
    if not is_named(lr_params):
        takes(lr_params, 1, "the learning rate")
        return lambda iteration: ng.as_op(lr_params(iteration))
    policy = lr_policies.get(lr_params.get("name", ""))
    name = str(lr_params.get("name"))
    if policy is None:
        limit(
            f"there is no learning-rate policy {name!r}",
            did_you_mean(name, lr_policies, f"one of {', '.join(lr_policies)}"),
        )
    missing = [p for p in policy.parameters if p not in lr_params]
    if missing:
        fail(
            UserError,
            f"the learning-rate policy {name!r} lacks {', '.join(missing)}",
            f"it needs {', '.join(policy.parameters)}",
        )
    known = [*policy.parameters, *policy.optional]
    # A misspelled parameter that may be left out would go unnoticed.
    unknown = [p for p in lr_params if policy.optional and p != "name" and p not in known]
    if unknown:
        fail(
            UserError,
            f"the learning-rate policy {name!r} has no {unknown[0]!r}",
            did_you_mean(str(unknown[0]), known, f"it has {', '.join(known)}"),
        )
    return policy.make(lr_params)


def learning_rate_of(given: Any, iteration: Any = None) -> Tensor:
    """The learning rate as a tensor: what `get_learning_rate_policy_callback(given)` gives for the number of the iteration.

    Raises UserError for a rate that depends on the iteration where none is given.
    """
    schedule = get_learning_rate_policy_callback(given)
    if iteration is not None:
        return schedule(iteration)
    mark = ng.constant(0, ())
    rate = schedule(mark)
    if mark in closure([rate]):
        name = repr(given.get("name")) if is_named(given) else "this function"
        fail(
            UserError,
            f"the learning rate {name} depends on the iteration, and no iteration is given: it would never change",
            'iteration=inputs["iteration"], which make_placeholders(include_iteration=True) makes and batches hold',
        )
    return rate
