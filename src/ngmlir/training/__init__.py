# SPDX-License-Identifier: Apache-2.0
"""Formulas of training that several front ends share: how optimizers change variables, how gradients are clipped, and how widely
initial values are spread. They take tensors and give tensors; who keeps what from step to step is up to the front end."""
