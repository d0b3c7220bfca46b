package resource

import "fmt"

// DriverOf settles which cgroup driver kubelet and runtime work with. Both have to use the same,
// and only the runtime knows which its containers get: what it says over CRI counts (KEP-4033, no
// choice any more since 1.36); a runtime that does not say is taken to use the configured one.
// warning tells that the two differ and what to do about it, empty when they do not; err is about a
// driver there is none of.
func DriverOf(configured, runtime string) (d Driver, warning string, err error) {
	for _, x := range []struct{ name, from, fix string }{
		{configured, "the kubelet's configuration (cgroupDriver)", "set it to cgroupfs or systemd"},
		{runtime, "the container runtime's answer to RuntimeConfig", "update the runtime"},
	} {
		if x.name != "" && Driver(x.name) != Cgroupfs && Driver(x.name) != Systemd {
			return "", "", fmt.Errorf("cgroup driver %q in %s is neither cgroupfs nor systemd: %s", x.name, x.from,
				x.fix)
		}
	}
	switch {
	case runtime == "" && configured == "":
		return Cgroupfs, "", nil
	case runtime == "":
		return Driver(configured), "", nil
	case configured != "" && configured != runtime:
		warning = fmt.Sprintf("cgroup driver mismatch: the kubelet's configuration says %q and the container runtime "+
			"uses %q; the runtime's is taken, as both have to use the same. Set cgroupDriver: %s in the "+
			"KubeletConfiguration, or %s in the runtime's",
			configured, runtime, runtime, driverSetting(Driver(configured)))
	}
	return Driver(runtime), warning, nil
}

// driverSetting is what makes containerd use a driver.
func driverSetting(d Driver) string {
	return fmt.Sprintf("SystemdCgroup = %t", d == Systemd)
}
