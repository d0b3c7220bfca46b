package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// preload imports the archives (*.tar, *.tar.gz, *.tgz) of ImagesDir that are new or changed since they were last imported. A machine without a
// registry gets its images this way.
func (c *Child) preload(ctx context.Context) error {
	entries, err := os.ReadDir(c.cfg.ImagesDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("directory of images: %w", err)
	}
	record := filepath.Join(c.cfg.root(), "imported.json")
	before, after := map[string]string{}, map[string]string{}
	if raw, err := os.ReadFile(record); err == nil && json.Unmarshal(raw, &before) != nil {
		before = map[string]string{} // cut off by a crash: import again
	}
	for _, e := range entries {
		if n := e.Name(); !strings.HasSuffix(n, ".tar") && !strings.HasSuffix(n, ".tar.gz") && !strings.HasSuffix(n, ".tgz") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("directory of images: %w", err)
		}
		stamp := fmt.Sprintf("%d bytes, %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
		if before[e.Name()] != stamp {
			if _, err := c.ImportImage(ctx, filepath.Join(c.cfg.ImagesDir, e.Name())); err != nil {
				return fmt.Errorf("%w; mend the archive or take it out of %s", err, c.cfg.ImagesDir)
			}
		}
		after[e.Name()] = stamp
	}
	if maps.Equal(before, after) {
		return nil
	}
	raw, err := json.MarshalIndent(after, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(record, raw, 0o600)
}
