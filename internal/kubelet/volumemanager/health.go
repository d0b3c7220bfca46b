package volumemanager

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// VolumesToReportHealth are the volumes whose drivers can be asked how they are: those that a
// driver was asked to stage or publish, whether or not it did. It does not wait for steps that
// hang.
func (f *Manager) VolumesToReportHealth() []volume.VolumeToHealthCheck {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []volume.VolumeToHealthCheck
	for _, s := range f.pods {
		for _, v := range s.attempted {
			out = append(out, v)
		}
	}
	return out
}

// attempt notes that the driver of a volume is asked for it: to stage it at a path, or to publish
// it. Inline volumes are passed over, as upstream does.
func (f *Manager) attempt(uid types.UID, spec volume.Spec, data volume.VolumeData, path string) {
	if spec.PersistentVolume == nil || data.VolumeHandle == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.pods[uid]
	if s == nil {
		return
	}
	v := s.attempted[spec.Volume.Name]
	v.PodUID, v.Name, v.Driver, v.Handle = uid, spec.Volume.Name, data.DriverName, data.VolumeHandle
	v.StagingPath = data.DeviceMountPath
	if path != data.DeviceMountPath && !spec.Block() {
		v.PublishPath = path
	}
	if s.attempted == nil {
		s.attempted = map[string]volume.VolumeToHealthCheck{}
	}
	s.attempted[v.Name] = v
}

// dropAttempt forgets a volume that is taken away.
func (f *Manager) dropAttempt(s *podVolumes, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(s.attempted, name)
}
