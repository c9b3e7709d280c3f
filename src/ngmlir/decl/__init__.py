# SPDX-License-Identifier: Apache-2.0
"""Layer 2: reads op definitions (`dialects/`), rules, target tables and pipelines (`lowering/`); generates the op classes."""
