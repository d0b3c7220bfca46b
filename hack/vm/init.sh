#!/bin/busybox sh
# First program of the virtual machine: finds the disks and leaves the rest to systemd.
export PATH=/bin
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
while read -r m; do busybox insmod "/$m"; done </modules
busybox mount -t ext4 -o noatime /dev/vda /root
busybox mount -t ext4 -o ro /dev/vdb /root/opt/gantry
busybox umount /proc
busybox mount --move /dev /root/dev
exec busybox switch_root /root /usr/lib/systemd/systemd
