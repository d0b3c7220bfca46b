package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Features is what the runtime supports, read once per start. A field that a runtime does not
// report is false or empty.
type Features struct {
	// cgroupfs or systemd; empty: not reported (containerd before 2.0), use the configured one
	CgroupDriver string
	Handlers     map[string]HandlerFeature // runtime handler name, "" for the default one

	SupplementalGroupsPolicy  bool // SecurityContext.supplementalGroupsPolicy is supported
	UserNamespacesHostNetwork bool // hostUsers=false together with hostNetwork is supported
	MountOptions              bool // Mount.mount_options is supported
}

// HandlerFeature is what one runtime handler supports.
type HandlerFeature struct {
	RecursiveReadOnlyMounts bool
	UserNamespaces          bool
}

// Features returns the runtime's cgroup driver and features.
func (c *Client) Features(ctx context.Context) (Features, error) {
	f := Features{Handlers: map[string]HandlerFeature{}}
	cfg, err := c.runtime.RuntimeConfig(ctx)
	switch {
	case status.Code(err) == codes.Unimplemented:
	case err != nil:
		return f, err
	case cfg.GetLinux() != nil:
		f.CgroupDriver = driverName(cfg.Linux.CgroupDriver)
	}
	st, err := c.runtime.Status(ctx, false)
	if err != nil {
		return f, err
	}
	for _, h := range st.GetRuntimeHandlers() {
		f.Handlers[h.Name] = HandlerFeature{
			RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
			UserNamespaces:          h.GetFeatures().GetUserNamespaces(),
		}
	}
	f.SupplementalGroupsPolicy = st.GetFeatures().GetSupplementalGroupsPolicy()
	f.UserNamespacesHostNetwork = st.GetFeatures().GetUserNamespacesHostNetwork()
	f.MountOptions = st.GetFeatures().GetMountOptions()
	return f, nil
}

func driverName(d runtimeapi.CgroupDriver) string {
	switch d {
	case runtimeapi.CgroupDriver_SYSTEMD:
		return "systemd"
	case runtimeapi.CgroupDriver_CGROUPFS:
		return "cgroupfs"
	}
	return ""
}
