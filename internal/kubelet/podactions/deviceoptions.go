package podactions

import (
	"context"
	"maps"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// deviceOptions is what a container gets for its devices, as CRI takes it.
type deviceOptions struct{ devicemanager.RunOptions }

func (c *operation) deviceOptions(ctx context.Context, m podplan.Member) (deviceOptions, error) {
	if c.executor.d.Devices == nil || m.Kind == podplan.Ephemeral {
		return deviceOptions{}, nil
	}
	defer c.step("asking for the devices of container " + m.Name)()
	o, err := c.executor.d.Devices.RunOptions(ctx, c.pod, m.Container)
	return deviceOptions{o}, err
}

func (o deviceOptions) envs() (out []*runtimeapi.KeyValue) {
	for _, e := range o.Envs {
		out = append(out, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	return out
}

func (o deviceOptions) mounts() (out []*runtimeapi.Mount) {
	for _, m := range o.Mounts {
		out = append(out, &runtimeapi.Mount{ContainerPath: m.ContainerPath, HostPath: m.HostPath, Readonly: m.ReadOnly})
	}
	return out
}

func (o deviceOptions) deviceNodes() (out []*runtimeapi.Device) {
	for _, d := range o.Devices {
		out = append(out, &runtimeapi.Device{ContainerPath: d.ContainerPath, HostPath: d.HostPath,
			Permissions: d.Permissions})
	}
	return out
}

func (o deviceOptions) cdiDevices() (out []*runtimeapi.CDIDevice) {
	for _, name := range o.CDIDevices {
		out = append(out, &runtimeapi.CDIDevice{Name: name})
	}
	return out
}

// annotations are those of the plugins under the kubelet's own.
func (o deviceOptions) annotations(own map[string]string) map[string]string {
	if len(o.Annotations) == 0 {
		return own
	}
	out := maps.Clone(o.Annotations)
	maps.Copy(out, own)
	return out
}
