# SPDX-License-Identifier: Apache-2.0
"""Rank 8: paths under which programs know parts of other rooms; nothing lives here."""
