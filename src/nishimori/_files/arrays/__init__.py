"""Arrays in files, read and written in blocks of rows: .npz .npy .pt .safetensors."""
