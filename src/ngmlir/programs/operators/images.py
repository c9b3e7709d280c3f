# SPDX-License-Identifier: Apache-2.0
"""Operators of images: batches of channels of rows and columns."""
