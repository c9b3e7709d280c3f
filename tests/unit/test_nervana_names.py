# SPDX-License-Identifier: Apache-2.0
"""The public names that programs written for Nervana Graph use, what `dir` and `help` show of them, and unknown ones."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import warnings
from importlib import import_module

import pytest

import ngmlir as ng
from ngmlir.frontends import neon
from ngmlir.frontends.neon import Adam, Affine, BiRNN, Sequential, UniformInit

INIT = UniformInit(-0.5, 0.5)


NAMES = {
    "": """
        make_axis make_axes slice_axis constant placeholder variable persistent_tensor temporary value_of as_op as_ops negative
        absolute sign square sqrt exp log reciprocal sin cos tanh sigmoid safelog safelog_cutoff sigmoidAtomic stop_gradient add
        subtract multiply divide floordivide mod power maximum minimum equal not_equal less less_equal greater greater_equal sum
        prod max min argmax argmin mean variance squared_L2 L2_norm L1_norm tensor_size batch_size compute_reduction_axes
        create_reduction_op dot softmax cross_entropy_multi cross_entropy_binary cross_entropy_binary_inner convolution
        deconvolution pooling lookuptable ctc one_hot broadcast axes_with_order Transpose cast_axes cast_role map_roles expand_dims
        flatten flatten_at unflatten tensor_slice slice_along_axis pad stack concat_along_axis assign set_item fill sequential doall
        computation deriv uniform normal metadata with_op_metadata PrintOp default_dtype default_int_dtype max_adjoints
        min_adjoints sum_adjoints prod_adjoints Op AssignOp AssignOneDOp Fill ControlBlockOp ParallelOp ComputationOp TensorOp
        IndexOp AxesCastOp RoleCastOp MapRolesOp ExpandDims BroadcastOp ReorderAxes TensorSliceOp Flatten Unflatten
        AssignableTensorOp ValueOp TensorValueOp SequentialOp StackOp ConcatOp UnsliceOp SoftmaxOp SigmoidOp CrossEntropyMultiOp
        CrossEntropyBinaryInnerOp ElementWiseOp AbsoluteOp NegativeOp SignOp SquareOp SqrtOp ExpOp LogOp ReciprocalOp SinOp CosOp
        TanhOp SigmoidAtomicOp StopGradient Add Subtract Multiply Divide FloorDivide Mod Power Maximum Minimum Equal NotEqual Less
        LessEqual Greater GreaterEqual ReductionOp Sum Prod Max Min Argmax Argmin DotOp DotLowDimension TensorSizeOp OneHotOp
        OneHotTwoDimOp RngOp PatternLabelOp PatternSkipOp LiteralScalarOp ReadOp WriteOp Axes AxesMap FlattenedAxis
        TensorDescription UnmatchedAxesError UnsupportedTransformerException testing transformers frontends op_graph util""",
    "op_graph.axes": """Axis Axes FlattenedAxis AxesMap TensorDescription slice_axis IncompatibleAxesError UnmatchedAxesError
        DuplicateAxisNames""",
    "op_graph.convolution": "ConvolutionOp DeconvolutionOp update_conv bprop_conv",
    "op_graph.pooling": "PoolingOp BpropPoolOp",
    "op_graph.lookuptable": "LookupTableOp update_lut bprop_lut lookuptable_update",
    "op_graph.ctc": "CTCOp",
    "op_graph.digraph": "Digraph",
    "op_graph.serde.serde": "serialize_graph deserialize_graph",
    "op_graph.serde.serde_weights": """serialize_weights deserialize_weights extract_op extract_ops set_op_value read_np_values
        write_np_values json_dumps_manifest""",
    "transformers": """make_transformer make_transformer_factory set_transformer_factory transformer_choices
        allocate_transformer Transformer UnsupportedTransformerException""",
    "transformers.base": "Transformer DeviceBufferStorage DeviceTensor DeviceTensorView DeviceComputation make_transformer",
    "transformers.nptransform": "NumPyTransformer",
    "transformers.cputransform": "CPUTransformer",
    "transformers.passes.passes": "GraphPass PeepholeGraphPass GraphRewritePass SimplePrune RequiredTensorShaping",
    "testing": """ExecutorFactory executor check_derivative numeric_derivative assert_allclose RandomTensorGenerator ConvParams
        reference_conv reference_deconv_fprop reference_deconv_bprop raise_all_numpy_errors with_error_settings
        is_flex_factory execution random""",
    "util.names": "NameableValue NameScope name_scope",
    "util.ordered": "OrderedSet",
    "util.generics": "generic_method",
    "util.persist": "valid_path_append ensure_dirs_exist fetch_file get_data_cache_dir get_data_cache_or_nothing",
    "frontends.common.utils": """conv_output_dim deconv_output_dim ConvParameters make_convparams make_poolparams squeeze_axes
        CommonSGDOptimizer common_conv2d_pool_padding common_conv2d_pool_output_shape""",
    "frontends.common.learning_rate_policies": """lr_policies get_learning_rate_policy_callback lr_policy_fixed lr_policy_step
        lr_policy_schedule lr_policy_exp lr_policy_inv lr_policy_poly lr_policy_sigmoid lr_policy_provided""",
    "frontends.neon.axis": "ax make_shadow_axis is_shadow_axis shadow_axes_map reorder_spatial_axes",
    "frontends.neon.layer": """Layer Linear Bias Affine Convolution Deconvolution Pooling BatchNorm Dropout LookupTable Recurrent
        LSTM BiRNN RNNCell LSTMCell BaseRNNCell unroll Preprocess Activation ConvBase DeconvBase PoolBase make_conv""",
    "frontends.neon": """Sequential Parallel ResidualModule Container BoundComputation make_bound_computation ComputationalGraph
        SubGraph scope_ops Rectlin Rectlinclip Identity Explin Normalizer Softmax Tanh Logistic GaussianInit UniformInit ConstantInit
        GlorotInit XavierInit KaimingInit GradientDescentMomentum RMSProp Adam Adagrad LearningRateOptimizer Optimizer
        TrainCostCallback RunTimerCallback ProgressCallback TrainLoggerCallback LossCallback CallbackContainer CallbackPhase
        make_default_callbacks loop_train loop_eval ArrayIterator SequentialArrayIterator Saver SaverFile NgraphArgparser
        ProgressBar PBStreamHandler ax""",
}


@pytest.mark.parametrize("path", NAMES)
def test_names_are_there(path: str) -> None:
    module = import_module(f"ngmlir.{path}" if path else "ngmlir")
    missing = []
    for name in NAMES[path].split():
        try:
            getattr(module, name)
        except AttributeError:
            missing.append(name)
    assert not missing


def test_paths_that_one_import_is_enough_for() -> None:
    """As "Building graphs" writes them: `ngraph.op_graph.op_graph.AddOp`, `ngraph.util.ordered.OrderedSet`."""
    paths = "op_graph.op_graph.AddOp util.ordered.OrderedSet util.generics.generic_method"
    named = " ".join(f"ngmlir.{path};" for path in paths.split())
    subprocess.run([sys.executable, "-c", f"import ngmlir; {named}"], check=True)
    for package in (ng.op_graph, ng.util):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing


def test_names_in_dir_are_those_that_users_write() -> None:
    assert {"compile", "save", "load", "transformers", "numpy", "testing", "frontends", "__version__"} <= {
        *dir(ng)
    }
    for path in (
        "",
        ".frontends",
        ".frontends.neon",
        ".transformers",
        ".testing",
        ".numpy",
        ".simple",
        ".pictures",
    ):
        module = import_module(f"ngmlir{path}")
        names = dir(module)
        assert not {"Any", "TYPE_CHECKING", "annotations", "import_module"} & {*names}, path
        assert {*module.__all__} <= {*names} and all(hasattr(module, name) for name in names), path


def test_names_of_the_version() -> None:
    assert re.fullmatch(r"\d+\.\d+.*", ng.__version__)


DESCRIBED = [
    name
    for name in neon.__all__
    if isinstance(getattr(neon, name), type) and issubclass(getattr(neon, name), neon.SubGraph)
]


@pytest.mark.parametrize("name", DESCRIBED)
def test_names_of_arguments_are_explained(name: str) -> None:
    """`help(...)` of layers, containers and optimizers explains every argument of the constructor."""
    kind = getattr(neon, name)
    text = inspect.getdoc(kind) or ""
    parameters = [p for p in inspect.signature(kind).parameters.values() if p.kind is not p.VAR_KEYWORD]
    if text.count("Args: those of"):
        return
    told = re.findall(r"\w+", " ".join(re.findall(r"(?m)^ {4}([\w, ]+):", text)))
    assert not [p.name for p in parameters if p.name not in told and p.kind is not p.KEYWORD_ONLY], (
        name,
        told,
    )


def test_names_that_nobody_has_are_answered() -> None:
    with pytest.raises(TypeError, match=r"Adam has no argument 'lr'[\s\S]*did you mean learning_rate"):
        Adam(lr=0.1)
    with pytest.raises(TypeError, match=r"Affine has no argument 'units'[\s\S]*did you mean nout"):
        Affine(INIT, units=3)
    model = Sequential([Affine(INIT, nout=2)])
    with pytest.raises(AttributeError, match=r"inference_mode_on"):
        model.eval()
    with pytest.raises(AttributeError, match=r"did you mean variables"):
        _ = model.variabels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BiRNN(3, INIT).initialized is False
