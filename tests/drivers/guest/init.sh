#!/bin/busybox sh
# The guest's first process. It sees the host's files, read-only, under /host, runs /suite among them, and tells its exit
# status on the second serial line. Folders of the guest's own: /proc, /sys, /dev and /run.
for module in /modules/*; do
    busybox insmod "$module"
done
busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=262144 host /host
busybox mount -t proc proc /host/proc
busybox mount -t sysfs sysfs /host/sys
busybox mount -t debugfs debugfs /host/sys/kernel/debug
busybox mount -t devtmpfs devtmpfs /host/dev
busybox mount -t tmpfs tmpfs /host/run
busybox ip link set lo up
if [ -e /host/sys/class/net/eth0 ]; then
    # Addresses of QEMU's network: the guest's own, and the host's loopback at 10.0.2.2.
    busybox ip address add 10.0.2.15/24 dev eth0
    busybox ip link set eth0 up
fi
busybox mkdir /host/run/tmp /host/run/firmware
busybox cp /suite /host/run/suite
busybox chroot /host /bin/sh /run/suite
echo $? > /host/dev/ttyS1
busybox poweroff -f
