/*
 * poison -- calls that the core may not make: effects go through mk_env.
 *
 * Every .c file of the core ends its includes with this one, but for base/heap,
 * base/check, os/ *_posix and the binding.
 */
#ifndef MK_BASE_POISON_H
#define MK_BASE_POISON_H

#if defined(__GNUC__)
#pragma GCC poison malloc calloc realloc free strdup
#pragma GCC poison sprintf vsprintf strcpy strcat strtok gets
#pragma GCC poison pread pwrite fsync fdatasync ftruncate mmap munmap
#pragma GCC poison fopen fread fwrite fclose printf fprintf puts
#pragma GCC poison clock_gettime gettimeofday nanosleep usleep rand srand
#pragma GCC poison getenv system abort exit
#endif

#endif /* MK_BASE_POISON_H */
