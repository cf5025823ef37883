"""Weights of a model that scripts/fetch-model laid out, as the libraries of others read them.

Needs numpy and safetensors, which are imported where they are used.
"""

import json
import shutil
import struct


def unpack(folder, work):
    """Copies a model to where sentence-transformers reads it, with f32 weights.

    4-bit weights are unpacked, so that every engine has the same numbers to work with.
    """
    import numpy
    from safetensors.numpy import save_file

    for name in ("config.json", "tokenizer.json"):
        shutil.copy(folder / name, work / name)
    tokens = json.loads((work / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    known = {token["content"] for token in tokens}
    special = {
        kind: next(name for name in names if name in known)
        for kind, names in {
            "cls_token": ("[CLS]", "<s>"),
            "sep_token": ("[SEP]", "</s>"),
            "pad_token": ("[PAD]", "<pad>"),
            "unk_token": ("[UNK]", "<unk>"),
            "mask_token": ("[MASK]", "<mask>"),
        }.items()
    }
    # The plain class: it takes tokenizer.json as it is and adds nothing of its own.
    special["tokenizer_class"] = "PreTrainedTokenizerFast"
    (work / "tokenizer_config.json").write_text(json.dumps(special))
    if (folder / "model.safetensors").exists():
        shutil.copy(folder / "model.safetensors", work / "model.safetensors")
        return
    tensors = {}
    for name, shape, kind, blocks in read_gguf((folder / "model.gguf").read_bytes()):
        if kind == 0:
            values = numpy.frombuffer(blocks, "<f4")
        else:
            packed = numpy.frombuffer(blocks, numpy.uint8).reshape(-1, 18)
            scale = packed[:, :2].copy().view("<f2").astype("f4")
            low = (packed[:, 2:] & 15).astype("f4") - 8
            high = (packed[:, 2:] >> 4).astype("f4") - 8
            values = numpy.concatenate([low, high], axis=1) * scale
        tensors[name] = values.reshape(shape).copy()
    save_file(tensors, work / "model.safetensors", {"format": "pt"})


def read_gguf(data):
    """Gives (name, shape, type, bytes) of each tensor; knows what scripts/fetch-model writes."""
    magic, version, n_tensors, n_settings = struct.unpack_from("<4sIQQ", data)
    assert (magic, version) == (b"GGUF", 3)
    at = 24

    def string():
        nonlocal at
        (length,) = struct.unpack_from("<Q", data, at)
        at += 8 + length
        return data[at - length : at].decode()

    for _ in range(n_settings):
        string()
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        if kind == 8:
            string()
        else:
            at += 4
    entries = []
    for _ in range(n_tensors):
        name = string()
        (n_sides,) = struct.unpack_from("<I", data, at)
        sides = struct.unpack_from(f"<{n_sides}Q", data, at + 4)
        kind, start = struct.unpack_from("<IQ", data, at + 4 + 8 * n_sides)
        at += 4 + 8 * n_sides + 12
        entries.append((name, sides[::-1], kind, start))
    body = at + -at % 32
    for name, shape, kind, start in entries:
        n_elements = 1
        for side in shape:
            n_elements *= side
        size = n_elements * 4 if kind == 0 else n_elements // 32 * 18
        yield name, shape, kind, data[body + start : body + start + size]
