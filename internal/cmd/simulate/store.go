package simulate

import (
	"os"
	"path/filepath"
)

// defaultStore is where forecasts are kept; empty: the person has no cache directory.
func defaultStore() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gantry", "forecasts")
}
