package plugin

import (
	"fmt"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// ValidatePlugin refuses a plugin that made a socket below plugins_registry, with upstream's words.
// The name is the resource's. With the two methods below it is the plugin manager's Handler.
func (s *Server) ValidatePlugin(name, endpoint string, versions []string) error {
	compatible := false
	for _, v := range versions {
		compatible = compatible || v == pluginapi.Version
	}
	if !compatible {
		return fmt.Errorf("manager version, %s, is not among plugin supported versions %v", pluginapi.Version, versions)
	}
	err := validate(&pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: endpoint, ResourceName: name})
	if err != nil {
		return fmt.Errorf("invalid name of device plugin socket: %w", err)
	}
	return nil
}

// RegisterPlugin connects to a plugin.
func (s *Server) RegisterPlugin(name, endpoint string, _ []string) error {
	return s.connect(name, endpoint)
}

// DeRegisterPlugin drops it.
func (s *Server) DeRegisterPlugin(name, endpoint string) {
	s.mu.Lock()
	c := s.clients[endpoint]
	s.mu.Unlock()
	if c != nil && c.Resource == name {
		c.close()
	}
}
