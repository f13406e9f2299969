"""What some model types of transformers do that their configurations do not say: which pairs, which axes."""

PAIRS_OF_NEIGHBOURS = frozenset(
    {
        "blt_global_transformer",
        "blt_local_decoder",
        "blt_local_encoder",
        "blt_patcher",
        "codegen",
        "cohere",
        "cohere2",
        "cohere2_moe",
        "deepseek_v2",
        "ernie4_5",
        "ernie4_5_moe",
        "glm",
        "glm4",
        "glm4v_text",
        "glm_ocr_text",
        "gptj",
        "helium",
        "llama4_text",
        "moonshine",
        "roformer",
    }
)

INTERLEAVED_AXES = frozenset(
    {
        "cohere_compass_text",
        "cosmos3_edge_text",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_omni_moe_text",
        "qwen3_vl_moe_text",
        "qwen3_vl_text",
        "qwen4_exp_text",
    }
)

# arrangements of sections that are not "runs" or "interleaved"
OTHER_SECTIONS = frozenset({"ernie4_5_vl_moe_text", "hunyuan_vl_text", "hy_v4_vl_text", "neomme"})

AXIAL_HALVES = frozenset(
    {
        "cohere_compass_vision",
        "dots3_note_vision_encoder",
        "ernie4_5_vl_moe_vision",
        "exaone4_5_vision",
        "glm4v_moe_vision",
        "glm4v_vision",
        "glm_ocr_vision",
        "lfm3_vl_vision",
        "mlcd_vision_model",
        "paddleocr_vl_vision",
        "qwen2_5_omni_vision_encoder",
        "qwen2_5_vl_vision",
        "qwen2_vl_vision",
        "qwen3_5_moe_vision",
        "qwen3_5_vision",
        "qwen3_omni_moe_vision_encoder",
        "qwen3_vl_moe_vision",
        "qwen3_vl_vision",
        "video_llama_3_vision",
    }
)

AXIAL_AXIS_HALVES = frozenset({"gemma4_vision"})
