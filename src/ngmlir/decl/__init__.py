# SPDX-License-Identifier: Apache-2.0
"""Rank 2: reads the words (`dialects/`) and the steps (`lowering/`); writes the generated op classes."""
