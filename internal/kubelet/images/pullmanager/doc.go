// Package pullmanager remembers on disk which images the kubelet pulled and with whose credentials,
// so that no Pod runs from an image that it could not pull itself.
//
// KEP-2535: DIR/image_manager/pulling holds what is being pulled, DIR/image_manager/pulled what
// was, one file per image, in the format of kubelet.config.k8s.io/v1beta1. decide.go
// decides, manager.go reads and writes the files.
//
// In: the policy of KubeletConfiguration, pulls as they begin and end, the credentials a Pod has.
// Out: whether a Pod may use an image that is there.
package pullmanager
