package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	cadvisor "github.com/google/cadvisor/lib/model"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/gantry-project/gantry/test/devicescenario"
)

// pluginDir is where upstream's device manager keeps its socket and its checkpoint: main refuses to
// run where it holds something.
const pluginDir = "/var/lib/kubelet/device-plugins"

// recordDevices records what upstream's device manager does.
func recordDevices(first, n uint64, out string) error {
	if entries, err := os.ReadDir(pluginDir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s holds something: run in a mount namespace of its own, with a tmpfs there", pluginDir)
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(zip)
	for seed := first; seed < first+n; seed++ {
		answers, err := deviceAnswers(devicescenario.Random(seed))
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := enc.Encode(devicescenario.Recorded{Seed: seed, Answers: answers}); err != nil {
			return err
		}
	}
	return zip.Close()
}

// chosen is a topology manager that chose what the scenario says.
type chosen map[string][]int

func (c chosen) GetAffinity(_ klog.Logger, uid, container string) topologymanager.TopologyHint {
	nodes, ok := c[uid+"/"+container]
	if !ok || len(nodes) == 0 {
		return topologymanager.TopologyHint{}
	}
	mask, err := bitmask.NewBitMask(nodes...)
	if err != nil {
		panic(err)
	}
	return topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true}
}
func (chosen) GetPolicy() topologymanager.Policy { return nil }
func (chosen) Name() string                      { return "scenario" }

// devicePlugin is the scenario's plugin.
type devicePlugin struct{ s devicescenario.Scenario }

func (p devicePlugin) API() pluginapi.DevicePluginClient { return p }
func (devicePlugin) Resource() string                    { return devicescenario.Resource }
func (devicePlugin) SocketPath() string                  { return pluginDir + "/gpu.sock" }
func (devicePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty,
	...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}
func (devicePlugin) ListAndWatch(context.Context, *pluginapi.Empty,
	...grpc.CallOption) (grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse], error) {
	return nil, nil
}
func (p devicePlugin) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest,
	_ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	c := r.ContainerRequests[0]
	must := slices.Sorted(slices.Values(c.MustIncludeDeviceIDs))
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{
		{DeviceIDs: p.s.Prefer(c.AvailableDeviceIDs, must, int(c.AllocationSize))}}}, nil
}
func (devicePlugin) Allocate(context.Context, *pluginapi.AllocateRequest,
	...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}
func (devicePlugin) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest,
	...grpc.CallOption) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}

func deviceAnswers(s devicescenario.Scenario) ([]devicescenario.Answer, error) {
	logger, ctx := klog.Background(), context.Background()
	if err := os.RemoveAll(pluginDir); err != nil {
		return nil, err
	}
	var topology []cadvisor.Node
	for id := range s.NUMANodes {
		topology = append(topology, cadvisor.Node{Id: id})
	}
	affinity := chosen{}
	m, err := devicemanager.NewManagerImpl(logger, topology, affinity)
	if err != nil {
		return nil, err
	}
	var pods []*v1.Pod
	if err := m.Start(logger, func() []*v1.Pod { return pods }, always{}, containermap.NewContainerMap(),
		sets.New[string]()); err != nil {
		return nil, err
	}
	defer func() { _ = m.Stop(logger) }() // the next scenario has a directory of its own
	if err := m.PluginConnected(ctx, devicescenario.Resource, devicePlugin{s}); err != nil {
		return nil, err
	}
	remove := func(uid string) {
		pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return string(p.UID) == uid })
	}
	var out []devicescenario.Answer
	for _, step := range s.Steps {
		a := devicescenario.Answer{}
		switch {
		case step.Report != nil:
			m.PluginListAndWatchReceiver(logger, devicescenario.Resource, &pluginapi.ListAndWatchResponse{
				Devices: reported(step.Report)})
		case step.Add == nil:
			remove(step.Remove)
		default:
			p := step.Add.MakePod()
			pods = append(pods, p)
			a.Hints, a.Devices = map[string][]string{}, map[string][]string{}
			for _, c := range step.Add.Containers {
				affinity[step.Add.UID+"/"+c.Name] = c.Affinity
				made := container(p, c.Name)
				for _, h := range m.GetTopologyHints(logger, p, made, lifecycle.AddOperation)[devicescenario.Resource] {
					a.Hints[c.Name] = append(a.Hints[c.Name], fmt.Sprint(h.NUMANodeAffinity.GetBits(), " ",
						h.Preferred))
				}
				slices.Sort(a.Hints[c.Name])
				if err := m.Allocate(ctx, p, made, lifecycle.AddOperation); err != nil {
					a.Error = err.Error()
					remove(step.Add.UID)
					break
				}
				for id := range m.GetDevices(step.Add.UID, c.Name)[devicescenario.Resource] {
					a.Devices[c.Name] = append(a.Devices[c.Name], id)
				}
				slices.Sort(a.Devices[c.Name])
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func container(p *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func reported(list []devicescenario.Device) []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, d := range list {
		x := &pluginapi.Device{ID: d.ID, Health: pluginapi.Healthy}
		if !d.Healthy {
			x.Health = pluginapi.Unhealthy
		}
		for _, n := range d.Nodes {
			if x.Topology == nil {
				x.Topology = &pluginapi.TopologyInfo{}
			}
			x.Topology.Nodes = append(x.Topology.Nodes, &pluginapi.NUMANode{ID: n})
		}
		out = append(out, x)
	}
	return out
}
