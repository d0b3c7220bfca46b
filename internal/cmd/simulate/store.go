package simulate

import (
	"os"
	"path/filepath"
)

// storeHelp documents the flag --store.
const storeHelp = "directory of the kept forecasts (default: gantry/forecasts in the user's cache directory)"

// defaultStore is where forecasts are kept; for a person without a cache directory that of the
// system's temporary files.
func defaultStore() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "gantry", "forecasts")
}
