package csidriver

import (
	"cmp"
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// GetPluginInfo is the driver's name.
func (d *Driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: Name, VendorVersion: cmp.Or(d.o.Version, "dev")}, nil
}

// GetPluginCapabilities is that there is a controller, and that volumes are of one node.
func (d *Driver) GetPluginCapabilities(context.Context,
	*csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	out := &csipb.GetPluginCapabilitiesResponse{}
	for _, t := range []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE,
		csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS} {
		out.Capabilities = append(out.Capabilities, &csipb.PluginCapability{Type: &csipb.PluginCapability_Service_{
			Service: &csipb.PluginCapability_Service{Type: t}}})
	}
	out.Capabilities = append(out.Capabilities, &csipb.PluginCapability{
		Type: &csipb.PluginCapability_VolumeExpansion_{VolumeExpansion: &csipb.PluginCapability_VolumeExpansion{
			Type: csipb.PluginCapability_VolumeExpansion_ONLINE}}})
	return out, nil
}

// Probe is always a success: the directory was opened at the start.
func (d *Driver) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{}, nil
}
