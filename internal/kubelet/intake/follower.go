package intake

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/intake/static"
)

// follower keeps what a source of static Pods last had, and tells differences.
type follower struct {
	Static
	source string
	has    []static.Manifest
	twins  map[types.UID]bool
}

// tell tells what came and went since last time, and that the source has spoken.
func (f *follower) tell(found []static.Manifest) {
	d := static.Differ(f.has, found)
	f.has = d.Has
	for _, p := range d.Gone {
		f.To.Gone(f.source, p, false)
	}
	for _, p := range d.Put {
		f.To.Put(f.source, p)
	}
	twins := map[types.UID]bool{}
	for _, p := range d.Twins {
		twins[p.UID] = true
		if !f.twins[p.UID] && f.Tell != nil {
			f.Tell.Twin(f.source, p)
		}
	}
	f.twins = twins
	f.To.Complete(f.source)
}

func (f *follower) refused(place string, err error) {
	if f.Tell != nil {
		f.Tell.Refused(place, err)
	}
}

func (f *follower) unknown(place string, m static.Manifest) {
	if len(m.Unknown) > 0 && f.Tell != nil {
		f.Tell.Unknown(place, m.Unknown)
	}
}
