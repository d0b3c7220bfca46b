package volumehealth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// drivers answer as they are told.
type drivers struct {
	mu      sync.Mutex
	volumes map[string]func(ctx context.Context) ([]v1.VolumeHealthCondition, error) // by handle
	storage map[string][]storagev1.StorageHealthCondition
	asked   map[string]int // by handle or driver
}

func (d *drivers) Names() []string { return slices.Sorted(maps.Keys(d.storage)) }

func (d *drivers) VolumeHealth(ctx context.Context, v volume.VolumeToHealthCheck) ([]v1.VolumeHealthCondition, bool,
	error) {
	d.mu.Lock()
	d.asked[v.Handle]++
	answer := d.volumes[v.Handle]
	d.mu.Unlock()
	if answer == nil {
		return nil, false, nil
	}
	c, err := answer(ctx)
	return c, true, err
}

func (d *drivers) StorageHealth(_ context.Context, name string) ([]storagev1.StorageHealthCondition, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[name]++
	return d.storage[name], d.storage[name] != nil, nil
}

func (d *drivers) set(handle string, c []v1.VolumeHealthCondition, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[handle] = func(context.Context) ([]v1.VolumeHealthCondition, error) { return c, err }
}

func (d *drivers) times(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[what]
}

func degraded(why, text string) []v1.VolumeHealthCondition {
	return []v1.VolumeHealthCondition{{Status: v1.VolumeHealthDegraded, Reason: why, Message: text}}
}

// Drivers are asked at once and then in each interval; what is new is told once, a call that fails
// changes nothing, and a driver that hangs keeps neither the others nor its own storage.
func TestDriversAreAskedOnATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &drivers{volumes: map[string]func(context.Context) ([]v1.VolumeHealthCondition, error){},
			storage: map[string][]storagev1.StorageHealthCondition{"good": nil,
				"slow": {{Status: storagev1.StorageDegraded, Reason: "Slow"}}}, asked: map[string]int{}}
		d.set("a", nil, nil)
		d.volumes["s"] = func(ctx context.Context) ([]v1.VolumeHealthCondition, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		list := []volume.VolumeToHealthCheck{{PodUID: "p", Name: "data", Driver: "good", Handle: "a"},
			{PodUID: "p", Name: "mute", Driver: "mute", Handle: "m"},
			{PodUID: "q", Name: "data", Driver: "slow", Handle: "s"}}
		var changed []types.UID
		stored := map[string]int{}
		m := New(Deps{Drivers: d, Interval: time.Minute, Changed: func(u types.UID) { changed = append(changed, u) },
			Volumes: func() []volume.VolumeToHealthCheck { return list },
			UpdateStorageHealth: func(_ context.Context, driver string, c []storagev1.StorageHealthCondition) error {
				stored[driver] += len(c)
				return nil
			}, Reported: func(string, []storagev1.StorageHealthCondition) {}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { m.Run(ctx); close(done) }()
		rounds := func(n int) {
			time.Sleep(time.Duration(n) * time.Minute)
			synctest.Wait()
		}
		expect := func(what string, wantChanged int, want []v1.VolumeHealthCondition) {
			t.Helper()
			if got := m.Of("p")["data"]; len(changed) != wantChanged || !slices.Equal(got, want) {
				t.Errorf("%s: %d changes, and %v is known; want %d and %v", what, len(changed), got, wantChanged, want)
			}
		}
		synctest.Wait()
		expect("at once", 1, nil)
		d.set("a", degraded("Worn", "half"), nil)
		rounds(1)
		expect("a minute later", 2, degraded("Worn", "half"))
		d.set("a", degraded("Worn", "more"), nil)
		rounds(1)
		expect("after other words", 2, degraded("Worn", "half"))
		d.set("a", nil, errors.New("away"))
		rounds(2)
		expect("while calls fail", 2, degraded("Worn", "half"))
		d.set("a", nil, nil)
		rounds(1)
		expect("when it is well again", 3, nil)
		if got := d.times("a"); got != 6 {
			t.Errorf("the driver that answers was asked %d times in five minutes, want 6", got)
		}
		if got := d.times("s"); got != 1 {
			t.Errorf("the driver that hangs was asked %d times, want once", got)
		}
		if stored["slow"] != 6 {
			t.Errorf("the storage of the driver that hangs was told of %d times, want 6", stored["slow"])
		}
		if len(m.Of("p")) != 1 || m.Of("q") != nil {
			t.Errorf("of drivers that do not say, %v and %v are known, want 1 of them, nil", m.Of("p"), m.Of("q"))
		}
		list = list[2:]
		rounds(1)
		if m.Of("p") != nil {
			t.Errorf("of a Pod that is gone %v is known, want nil", m.Of("p"))
		}
		cancel()
		<-done
	})
}
