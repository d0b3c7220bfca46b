package volumemanager

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// measured is a volume that something is done to, for those who measure it.
type measured struct {
	manager  *Manager
	volume   volume.Operation // what there is to know of the volume
	since    time.Time        // when setting it up began, or it was attached
	wantedAt time.Time        // by the Pod
}

// measure begins to set a Pod's volume up.
func (f *Manager) measure(t volume.Plugin, spec volume.Spec, wantedAt time.Time) *measured {
	return &measured{f, volume.Operation{Plugin: t.Name(), Driver: driverOfSpec(spec), Migrated: spec.Migrated},
		time.Now(), wantedAt}
}

func driverOfSpec(s volume.Spec) string {
	var inline *v1.CSIVolumeSource
	if s.Volume != nil {
		inline = s.Volume.CSI
	}
	switch {
	case s.PersistentVolume != nil && s.PersistentVolume.Spec.CSI != nil:
		return s.PersistentVolume.Spec.CSI.Driver
	case s.PersistentVolume == nil && inline != nil:
		return inline.Driver
	}
	return ""
}

// begin begins an operation. To wait until the volume is attached is before it is mounted, not a
// part of that.
func (m *measured) begin(name string) (end func(error)) {
	began, o := time.Now(), m.volume
	o.Name = name
	return func(err error) {
		switch name {
		case volume.OperationVerifyAttached:
			m.since = time.Now()
		case volume.OperationMount, volume.OperationMap:
			began = m.since
		}
		o.Took, o.Err = time.Since(began), err
		if name == volume.OperationMount && err == nil {
			o.Overall = time.Since(m.wantedAt)
		}
		m.manager.operated(o)
	}
}

func (f *Manager) operated(o volume.Operation) {
	if f.d.Operated != nil {
		f.d.Operated(o)
	}
}

// removal begins a removal of a volume of which data is stored.
func (f *Manager) removal(name string, data volume.VolumeData, migrated bool) (end func(error)) {
	began := time.Now()
	return func(err error) {
		f.operated(volume.Operation{Plugin: data.PluginName, Driver: csiDriver(data), Name: name, Migrated: migrated,
			Err: err, Took: time.Since(began)})
	}
}

// isMigrated tells whether a staged volume is one of a volume plugin that its driver took over; one
// that an earlier kubelet staged is not known to be.
func (f *Manager) isMigrated(data volume.VolumeData) bool {
	f.actual.mu.Lock()
	defer f.actual.mu.Unlock()
	d := f.actual.staged[idOf(data)]
	return d != nil && d.migrated
}
