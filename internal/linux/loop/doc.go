// Package loop gives files and devices loop devices, and finds and takes them away.
//
// In: paths of image files (of the driver of local volumes), and of block devices that have to stay
// open while Pods use them (of the kubelet). Out: /dev/loopN. An image is known by its inode,
// whatever path another mount namespace has it at; what FileDevices holds is known by its path,
// for one device may be held for several Pods.
package loop
