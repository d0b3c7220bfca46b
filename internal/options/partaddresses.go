package options

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cli"
)

// SchedulerPart names the scheduler's health and metrics among the ports of an instance.
const SchedulerPart = "scheduler"

// DashboardPart names the dashboard among them.
const DashboardPart = "dashboard"

// partAddresses are the addresses on which parts of an instance serve health and metrics, by part;
// an empty one is not served.
type partAddresses map[string]string

func partAddressesFile(dataDir string) string { return filepath.Join(dataDir, "ports.json") }

// readPartAddresses reads what the instance of a data directory wrote down; nil when it wrote
// nothing.
func readPartAddresses(dataDir string) partAddresses {
	raw, err := os.ReadFile(partAddressesFile(dataDir))
	if err != nil {
		return nil
	}
	out := partAddresses{}
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// partAddressesLock serialises writers, which are the parts of one process: the data directory is
// locked against others.
var partAddressesLock sync.Mutex

// RecordPartAddress writes down where a part of this instance serves, for `gantry doctor`, which
// else would ask the usual port, where another instance may be. That it cannot be written is no
// reason not to serve.
func RecordPartAddress(dataDir, part, address string) {
	partAddressesLock.Lock()
	defer partAddressesLock.Unlock()
	all := readPartAddresses(dataDir)
	if all == nil {
		all = partAddresses{}
	}
	all[part] = address
	raw, err := json.Marshal(all)
	next := partAddressesFile(dataDir) + ".new"
	if err == nil {
		err = errors.Join(os.WriteFile(next, raw, 0o644), os.Rename(next, partAddressesFile(dataDir)))
	}
	if err != nil {
		klog.Background().Error(err, "gantry doctor will not know where a part serves its metrics", "of", part)
	}
}

// SchedulerAddress is where the scheduler of an instance serves: as it wrote down, or as usual when
// no instance ever wrote in that directory. It is empty when the instance serves none.
func SchedulerAddress(dataDir, usual string) string {
	if all := readPartAddresses(dataDir); all != nil {
		return all[SchedulerPart]
	}
	if cli.Readable(cli.KubeconfigIn(dataDir)) {
		return "" // an instance without a scheduler's port; who listens on the usual one is another
	}
	return usual
}

// DashboardAddress is where the dashboard of an instance serves, as it wrote down; empty when it
// serves none.
func DashboardAddress(dataDir string) string { return readPartAddresses(dataDir)[DashboardPart] }
