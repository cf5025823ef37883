"""Makes what the engines of others read: export.py MODEL_FOLDER OUT weights|graphs

Writes to OUT the model with f32 weights as sentence-transformers reads it and, for `graphs`,
`model.onnx` (tokens in, unit vector out: mean pooling is part of the graph) and `model-int8.onnx`.
The last line of the output is JSON: for each graph that could not be made, why. Needs numpy and
safetensors; for graphs torch, transformers, onnx and onnxruntime.
"""

import json
import sys
from pathlib import Path

from weights import unpack

OPSET = 17


def main():
    folder, out, form = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    unpack(folder, out)
    faults = {}
    if form == "graphs":
        try:
            export(out)
        except Exception as error:
            faults["onnx"] = faults["int8"] = reason(error)
        else:
            try:
                quantize(out)
            except Exception as error:
                faults["int8"] = reason(error)
    print(json.dumps(faults))


def export(out):
    import torch
    from transformers import AutoModel

    class Sentences(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # What the exporter makes of `sdpa` runs slower in both engines.
            model = AutoModel.from_pretrained(out, attn_implementation="eager")
            self.model = model.eval().float()

        def forward(self, input_ids, attention_mask):
            tokens = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
            weights = attention_mask.unsqueeze(2).to(tokens.dtype)
            means = (tokens * weights).sum(1) / weights.sum(1)
            return means / means.norm(dim=1, keepdim=True)

    ids = torch.randint(5, 1000, (2, 16))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    sides = {0: "texts", 1: "tokens"}
    with torch.no_grad():
        torch.onnx.export(
            Sentences(),
            (ids, mask),
            str(out / "model.onnx"),
            input_names=["input_ids", "attention_mask"],
            output_names=["vectors"],
            dynamic_axes={"input_ids": sides, "attention_mask": sides, "vectors": {0: "texts"}},
            opset_version=OPSET,
            dynamo=False,
        )


def quantize(out):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        out / "model.onnx", out / "model-int8.onnx", per_channel=True, weight_type=QuantType.QInt8
    )


def reason(error):
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


if __name__ == "__main__":
    main()
