"""Tables in files, read and written in blocks of rows: .csv .tsv .csv.gz .tsv.gz .jsonl .parquet .feather."""
