# SPDX-License-Identifier: Apache-2.0
"""Methods that go by the class of their argument."""

from ..transformers.passes.dispatch import generic_method as generic_method
