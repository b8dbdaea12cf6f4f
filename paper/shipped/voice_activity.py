"""Logits of Silero VAD (speech or not) on frames of 32 ms: recorded announcements in noise.

    python voice_activity.py CACHE

Debian has announcements for telephone exchanges in five languages, spoken by professional speakers and recorded without
noise. A stream is six seconds of generated noise with an announcement mixed in after two: as in a call from a car or a
machine room. Because the announcement is known without the noise, each frame's label is known: speech where the clean
announcement is loud, none before it begins; frames between are left out. (Sounds and music of programs would be closer to
life, but some of them speak, and nothing but a listener tells which.)
"""

import io
import re
import subprocess
import sys
from importlib.metadata import distribution, version
from pathlib import Path

import debian_binaries
import debian_sources
import logits_file
import numpy as np
import onnx
import onnxruntime
import soundfile
from scipy.signal import resample_poly

RATE, FRAME, CONTEXT = 16_000, 512, 64  # as the package cuts its input
SECONDS, ONSET = 6, 2
SNR = (5, 0, -5, -10)  # dB
COLOURS = (0, 1, 2)  # white, pink and brown noise: power falls with this power of the frequency
FRAMES = 6  # of each label, from a stream
PROMPTS = {
    "asterisk-core-sounds-en-wav": "1.6.1-1",
    "asterisk-core-sounds-es-wav": "1.6.1-1",
    "asterisk-core-sounds-fr-wav": "1.6.1-1",
    "asterisk-core-sounds-it-wav": "1.6.1-1",
    "asterisk-core-sounds-ru-wav": "1.6.1-1",
}
ANNOUNCEMENTS = 80  # of a language
OUTPUT = Path(__file__).parents[1] / "src/nishimori_paper/shipped/voice_activity.npz"
LOGIT = "/model/decoder/decoder/2/Conv_output_0"


def decode(content):
    """Samples of a sound at 16 kHz, one channel; None for what cannot be read or is silent or shorter than half a second."""
    try:
        samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        return None
    samples = samples.mean(axis=1)[: rate * 20]
    if rate < 8000 or len(samples) < rate / 2 or np.abs(samples).max() < 1e-3:
        return None
    divisor = np.gcd(RATE, rate)
    return resample_poly(samples, RATE // divisor, rate // divisor)


def announcements(folder):
    """Paths and contents of the announcements: longer than 1.5 seconds, none of the beeps, music and animals among them."""
    for package, number in PROMPTS.items():
        archive = folder / f"{package}_{number}_all.deb"
        if not archive.exists():
            subprocess.run(["apt-get", "download", f"{package}={number}"], cwd=folder, check=True)
        with debian_binaries.tree(archive) as tar:
            members = [each for each in tar.getmembers() if each.name.endswith(".wav") and each.size > 24_000]
            spoken = [each for each in members if not re.search(r"silence|beep|tone|tt-|ring|weasels", each.name)]
            for member in sorted(spoken, key=lambda each: debian_sources.digest(each.name))[:ANNOUNCEMENTS]:
                yield member.name, tar.extractfile(member).read()


def noise_of(colour, random):
    """Noise whose power falls with a power of the frequency."""
    spectrum = np.fft.rfft(random.standard_normal(SECONDS * RATE))
    frequency = np.fft.rfftfreq(SECONDS * RATE, 1 / RATE)
    return np.fft.irfft(spectrum * np.maximum(frequency, 20) ** (-colour / 2))


def mix(noise, announcement, snr):
    """A stream, and how loud each frame's clean speech is, in dB of the announcement's loud frames."""
    length = SECONDS * RATE // FRAME * FRAME
    noise = noise[:length]
    speech = np.zeros(length, dtype=np.float32)
    onset = ONSET * RATE // FRAME * FRAME
    piece = announcement[: length - onset]
    speech[onset : onset + len(piece)] = piece
    power = (speech.reshape(-1, FRAME) ** 2).mean(axis=1)
    loud = np.quantile(power[onset // FRAME : onset // FRAME + max(len(piece) // FRAME, 1)], 0.9)
    noise = noise * np.sqrt(loud / (noise**2).mean() / 10 ** (snr / 10))
    stream = speech + noise
    with np.errstate(divide="ignore"):
        level = 10 * np.log10(power / loud)
    level[onset // FRAME + len(piece) // FRAME :] = np.nan
    level[: onset // FRAME] = -np.inf
    return 0.5 * stream / np.abs(stream).max(), level


def logits_of(stream, session):
    """The input of the sigmoid for each frame of a stream, in order: the model remembers."""
    state, context, found = np.zeros((2, 1, 128), dtype=np.float32), np.zeros(CONTEXT, dtype=np.float32), []
    for frame in stream.astype(np.float32).reshape(-1, FRAME):
        told = {"input": np.concatenate([context, frame])[None], "state": state, "sr": np.array(RATE, dtype=np.int64)}
        _, state, logit = session.run(None, told)
        context = frame[-CONTEXT:]
        found.append(float(logit.ravel().mean()))
    return np.array(found)


def main(folder):
    """Compute and write the file."""
    folder = Path(folder)
    model = onnx.load(
        distribution("silero-vad").locate_file("silero_vad/data/silero_vad_16k_op15.onnx")
    )  # importing the package needs PyTorch
    model.graph.output.append(onnx.helper.make_tensor_value_info(LOGIT, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rows = []
    for name, content in announcements(folder):
        number = int(debian_sources.digest(name), 16)
        random = np.random.default_rng(number % 2**63)
        snr, colour = SNR[number % len(SNR)], COLOURS[number // 4 % len(COLOURS)]
        stream, level = mix(noise_of(colour, random), decode(content), snr)
        logits = logits_of(stream, session)
        # The first frames have no memory yet.
        for label, candidates in enumerate(
            (np.flatnonzero(level[: ONSET * RATE // FRAME] == -np.inf)[8:], np.flatnonzero(level > -15))
        ):
            for frame in random.permutation(candidates)[:FRAMES]:
                rows.append((name, f"{snr} dB colour {colour} frame {frame}", label, logits[frame]))
    score = np.array([logit for *_, logit in rows])
    logits_file.write(
        OUTPUT,
        np.stack([np.zeros_like(score), score], axis=1),
        [label for *_, label, _ in rows],
        [name for name, *_ in rows],
        ("no speech", "speech"),
        None,
        {
            "title": "Silero VAD, speech or not",
            "package": "silero-vad (PyPI)",
            "version": version("silero-vad"),
            "licence": "MIT",
            "data": "; ".join([*(f"{package} {number}" for package, number in PROMPTS.items()), "generated noise"]),
            "rows": "A frame of 512 samples at 16 kHz of a stream in which an announcement was mixed into white, pink or brown "
            f"noise, its loud frames {SNR} dB above the noise. Speech: the clean frame is at most 15 dB below the loud ones; "
            "no speech: before the announcement. Half of each. Logit: the input of the model's sigmoid",
            "document": "announcement",
            "note": "Five speakers, each in every part: errors by announcement do not hold for other speakers",
        },
    )
    return rows, ("no speech", "speech"), np.stack([np.zeros_like(score), score], axis=1)


if __name__ == "__main__":
    main(sys.argv[1])
