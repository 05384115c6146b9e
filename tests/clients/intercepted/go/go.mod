module spantap.test/ask

go 1.21
