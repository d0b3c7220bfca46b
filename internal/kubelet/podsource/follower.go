package podsource

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// staticSource keeps what a source of static Pods last had, and tells differences.
type staticSource struct {
	StaticOptions
	source     string
	current    []static.Manifest
	duplicates map[types.UID]bool
}

// publish tells what came and went since last time, and that the source has spoken.
func (f *staticSource) publish(found []static.Manifest) {
	d := static.Diff(f.current, found)
	f.current = d.Current
	for _, p := range d.Removed {
		f.Receiver.Remove(f.source, p, false)
	}
	for _, p := range d.Updated {
		f.Receiver.Put(f.source, p)
	}
	duplicates := map[types.UID]bool{}
	for _, p := range d.Duplicates {
		duplicates[p.UID] = true
		if !f.duplicates[p.UID] && f.Reporter != nil {
			f.Reporter.DuplicateName(f.source, p)
		}
	}
	f.duplicates = duplicates
	f.Receiver.Complete(f.source)
}

func (f *staticSource) reportRefused(place string, err error) {
	if f.Reporter != nil {
		f.Reporter.Refused(place, err)
	}
}

func (f *staticSource) reportUnknown(place string, m static.Manifest) {
	if len(m.UnknownFields) > 0 && f.Reporter != nil {
		f.Reporter.UnknownFields(place, m.UnknownFields)
	}
}
