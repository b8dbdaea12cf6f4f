"""Logits of Silero VAD (speech or not) on frames of 32 ms: recorded announcements over sounds and music.

    python voice_activity.py CACHE

Debian has announcements for telephone exchanges in five languages, spoken by professional speakers and recorded without
noise, and sounds and music of programs. A stream is six seconds of a sound with an announcement mixed in after two: as in a
call from a noisy place. Because the announcement is known without the noise, each frame's label is known: speech where the
clean announcement is loud, none before it begins; frames between are left out.
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
SNR = (15, 10, 5, 0)  # dB, one stream of each
FRAMES = 5  # of each label, from a stream
PROMPTS = {
    "asterisk-core-sounds-en-wav": "1.6.1-1",
    "asterisk-core-sounds-es-wav": "1.6.1-1",
    "asterisk-core-sounds-fr-wav": "1.6.1-1",
    "asterisk-core-sounds-it-wav": "1.6.1-1",
    "asterisk-core-sounds-ru-wav": "1.6.1-1",
}
# Sounds of these may be somebody who speaks.
SPEECH = re.compile(
    r"(?i)voice|speech|speak|spoken|espeak|festival|mbrola|phon|letter|alphab|word|talk|sing|vocal|/say|asterisk|number|lang|/[a-z]\."
)
PACKAGES, SOUNDS = 320, 1
ENDINGS = (".wav", ".ogg", ".oga", ".flac")
LIST = Path(__file__).with_name("sound_packages.txt")
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
    """Paths and contents of the announcements of each part, in a fixed order."""
    found = [[] for _ in logits_file.PARTS]
    for package, number in PROMPTS.items():
        archive = folder / f"{package}_{number}_all.deb"
        if not archive.exists():
            subprocess.run(["apt-get", "download", f"{package}={number}"], cwd=folder, check=True)
        with debian_binaries.tree(archive) as tar:
            members = [
                each
                for each in tar.getmembers()
                if each.name.endswith(".wav") and each.size > 24_000 and "silence" not in each.name and "beep" not in each.name
            ]
            for member in sorted(members, key=lambda each: debian_sources.digest(each.name))[:200]:
                found[logits_file.part_of(f"announcement {member.name}")].append((member.name, tar.extractfile(member).read()))
    return [sorted(part, key=lambda each: debian_sources.digest(each[0])) for part in found]


def mix(sound, announcement, snr):
    """A stream, and how loud each frame's clean speech is, in dB of the announcement's loud frames."""
    length = SECONDS * RATE // FRAME * FRAME
    noise = np.resize(sound, length)
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
    if not LIST.exists():
        debian_binaries.choose(folder, LIST, ENDINGS, PACKAGES)
    model = onnx.load(
        distribution("silero-vad").locate_file("silero_vad/data/silero_vad_16k_op15.onnx")
    )  # importing the package needs PyTorch
    model.graph.output.append(onnx.helper.make_tensor_value_info(LOGIT, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    spoken, rows = announcements(folder), []
    for package, path, content in debian_binaries.files(folder, LIST, ENDINGS, SOUNDS):
        sound = None if SPEECH.search(f"{package}/{path}") else decode(content)
        if sound is None:
            continue
        own = spoken[logits_file.part_of(package)]
        for snr in SNR:
            name = f"{package}/{path} {snr}"
            number = int(debian_sources.digest(name), 16)
            announced, said = own[number % len(own)]
            stream, level = mix(sound, decode(said), snr)
            logits = logits_of(stream, session)
            random = np.random.default_rng(number % 2**63)
            # The first frames have no memory yet.
            for label, candidates in enumerate(
                (np.flatnonzero(level[: ONSET * RATE // FRAME] == -np.inf)[8:], np.flatnonzero(level > -15))
            ):
                for frame in random.permutation(candidates)[:FRAMES]:
                    rows.append((package, f"{name} {announced} {frame}", label, logits[frame]))
    score = np.array([logit for *_, logit in rows])
    logits_file.write(
        OUTPUT,
        np.stack([np.zeros_like(score), score], axis=1),
        [label for *_, label, _ in rows],
        [package for package, *_ in rows],
        ("no speech", "speech"),
        None,
        {
            "title": "Silero VAD, speech or not",
            "package": "silero-vad (PyPI)",
            "version": version("silero-vad"),
            "licence": "MIT",
            "data": "Announcements: "
            + ", ".join(f"{package} {number}" for package, number in PROMPTS.items())
            + f"; sounds and music: binary packages of {debian_sources.RELEASE}, versions in paper/shipped/sound_packages.txt",
            "rows": "A frame of 512 samples at 16 kHz of a stream in which an announcement was mixed into a sound, the loud "
            f"frames of the announcement {SNR} dB above the sound's mean. Speech: the clean frame is at most 15 dB below the "
            "loud ones; no speech: before the announcement. Half of each. Logit: the input of the model's sigmoid",
            "document": "binary package of the sound",
            "note": "Five speakers, all of them in every part; no announcement is in two parts",
        },
    )
    return rows, ("no speech", "speech"), np.stack([np.zeros_like(score), score], axis=1)


if __name__ == "__main__":
    main(sys.argv[1])
