package rotation

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// rotate puts a log aside. When the runtime does not write to a new file, the old name comes back
// and the next round tries again.
func (k *Manager) rotate(ctx context.Context, id, path string, now time.Time) error {
	files, err := filepath.Glob(path + ".*")
	if err != nil {
		return err
	}
	s := planRotation(path, files, k.d.Policy, now)
	for _, f := range s.remove {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("failed to remove old log %q: %w", f, err)
		}
	}
	for _, f := range s.compress {
		if err := compress(f); err != nil {
			return fmt.Errorf("failed to compress log %q: %w", f, err)
		}
	}
	if err := os.Rename(path, s.rename); err != nil {
		return fmt.Errorf("failed to rotate log %q to %q: %w", path, s.rename, err)
	}
	if err := k.d.Runtime.ReopenContainerLog(ctx, id); err != nil {
		back := os.Rename(s.rename, path)
		return errors.Join(fmt.Errorf("failed to reopen container log %q: %w", id, err), back)
	}
	return nil
}

// compress replaces a file by its compressed form; a stop in the middle leaves the file as it was.
func compress(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path+tmpSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer os.Remove(path + tmpSuffix) // gone already when all went well
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	if err := errors.Join(err, z.Close(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+tmpSuffix, path+compressSuffix); err != nil {
		return err
	}
	return os.Remove(path)
}
