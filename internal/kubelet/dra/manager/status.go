package manager

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gantry-project/gantry/internal/kubelet/dra"
)

// Longer names of a pool and of a device are in no ResourceSlice.
const maxPoolName, maxDeviceName = 253, 63

// healthReported takes a driver's report about its devices.
func (m *Manager) healthReported(driver string, r *drahealthv1.NodeWatchResourcesResponse) {
	now := time.Now()
	report := map[dra.DeviceID]dra.DeviceHealth{}
	for _, d := range r.GetDevices() {
		if len(report) == dra.MaxDevicesPerDriver {
			break
		}
		if len(d.GetDevice().GetPoolName()) > maxPoolName || len(d.GetDevice().GetDeviceName()) > maxDeviceName {
			continue
		}
		h := dra.DeviceHealth{Status: v1.ResourceHealthStatusUnknown, Message: short(d.GetMessage()), At: now,
			Timeout: time.Duration(d.GetHealthCheckTimeoutSeconds()) * time.Second}
		switch d.GetHealth() {
		case drahealthv1.HealthStatus_HEALTHY:
			h.Status = v1.ResourceHealthStatusHealthy
		case drahealthv1.HealthStatus_UNHEALTHY:
			h.Status = v1.ResourceHealthStatusUnhealthy
		}
		report[dra.DeviceID{Driver: driver, Pool: d.GetDevice().GetPoolName(),
			Device: d.GetDevice().GetDeviceName()}] = h
	}
	m.mu.Lock()
	users := m.usersOf(m.health.Update(driver, report, now))
	m.mu.Unlock()
	for _, uid := range users {
		m.d.HealthChanged(uid)
	}
}

// short is a message that the API takes.
func short(text string) string {
	if len(text) <= v1.ResourceHealthMessageMaxLength {
		return text
	}
	return strings.ToValidUTF8(text[:v1.ResourceHealthMessageMaxLength-3], "") + "..."
}

// usersOf are the Pods that have one of the devices. m.mu is held.
func (m *Manager) usersOf(devices []dra.DeviceID) []types.UID {
	out := map[types.UID]bool{}
	for _, c := range m.claims {
		for driver, s := range c.DriverState {
			for _, d := range s.Devices {
				if slices.Contains(devices, dra.DeviceID{Driver: driver, Pool: d.PoolName, Device: d.DeviceName}) {
					for uid := range c.PodUIDs {
						out[types.UID(uid)] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// ResourcesStatus is allocatedResourcesStatus of a container for its claims; nil when it has none.
func (m *Manager) ResourcesStatus(p *v1.Pod, c *v1.Container) []v1.ResourceStatus {
	if len(c.Resources.Claims) == 0 {
		return nil
	}
	requests, err := dra.ContainerRequests(p, c)
	if err != nil {
		return nil // a claim is not made yet: nothing of it is prepared
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []v1.ResourceStatus
	for _, r := range requests {
		if claim := m.claims[claimKey{Namespace: p.Namespace, Name: r.Claim}]; claim != nil {
			out = append(out, dra.ResourcesStatus(r, claim, m.health, time.Now())...)
		}
	}
	return out
}

// ContainerDynamicResources is what the PodResources API shows of a container's claims.
func (m *Manager) ContainerDynamicResources(p *v1.Pod, c *v1.Container) []*podresourcesapi.DynamicResource {
	requests, err := dra.ContainerRequests(p, c)
	if err != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*podresourcesapi.DynamicResource
	for _, r := range requests {
		claim := m.claims[claimKey{Namespace: p.Namespace, Name: r.Claim}]
		if claim == nil {
			continue
		}
		one := &podresourcesapi.DynamicResource{ClaimName: claim.ClaimName, ClaimNamespace: claim.Namespace}
		for _, driver := range slices.Sorted(maps.Keys(claim.DriverState)) {
			for _, d := range claim.DriverState[driver].Devices {
				res := &podresourcesapi.ClaimResource{DriverName: driver, PoolName: d.PoolName,
					DeviceName: d.DeviceName,
					ShareId:    (*string)(d.ShareID)}
				for _, id := range d.CDIDeviceIDs {
					res.CdiDevices = append(res.CdiDevices, &podresourcesapi.CDIDevice{Name: id})
				}
				one.ClaimResources = append(one.ClaimResources, res)
			}
		}
		out = append(out, one)
	}
	return out
}
