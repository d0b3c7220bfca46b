package checkpointmanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrCorrupt is the error of a checkpoint whose checksum does not fit its content.
var ErrCorrupt = errors.New("checkpoint is corrupted")

// maxSize bounds what is read of a checkpoint, in bytes: more was not written by a kubelet.
const maxSize = 64 << 20

// Write writes a checkpoint to its disk.
func Write(dir, name string, blob []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+name+".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(blob)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that matters is the first
	}
	return err
}

// Read reads a checkpoint; found is false when there is none.
func Read(dir, name string) (blob []byte, found bool, err error) {
	at := filepath.Join(dir, name)
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !info.Mode().IsRegular() || info.Size() > maxSize:
		return nil, false, fmt.Errorf("%s is not a checkpoint", at)
	}
	blob, err = os.ReadFile(at)
	return blob, err == nil, err
}
